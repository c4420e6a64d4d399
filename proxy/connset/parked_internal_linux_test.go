package connset

import (
	"net"
	"sync"
	"testing"
	"time"

	"shardway/internal/coarsetime"
)

// Several connections wait for the end of a visit, and the next visit begins before all of them have
// been woken. They are parked nevertheless.
func TestConnIsParkedAfterNextVisit(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ln.Close() }()
	socket, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = socket.Close() }()
	watcher := &Watcher{Ctx: t.Context(), Clock: &coarsetime.Clock{}, Goroutines: &sync.WaitGroup{}, Resume: func(Resumed) {}}
	defer watcher.Sockets.Close()
	s, c := newSwept(never), &conn{}
	s.hooks.Sweep = func([]*conn, bool) {}
	s.Add(c)
	type result struct {
		parked bool
		err    error
	}
	results := make(chan result, 1)
	end, ended := make(chan struct{}), make(chan struct{})
	begun := make(chan struct{})
	go func() {
		defer close(ended)
		s.Visit(nil, func([]*conn) {
			close(begun)
			<-end
		})
	}()
	<-begun
	go func() {
		parked, err := s.Park(c, &Parked{Conn: socket, Watcher: watcher})
		results <- result{parked, err}
	}()
	for !s.AwaitsVisits() {
		time.Sleep(time.Millisecond)
	}
	s.Set.mu.Lock() // one visit ends, and another one begins
	close(s.parked.noVisits)
	s.parked.noVisits = nil
	s.Set.mu.Unlock()
	for !s.AwaitsVisits() && len(results) == 0 {
		time.Sleep(time.Millisecond)
	}
	close(end)
	<-ended
	if r := <-results; r.err != nil || !r.parked {
		t.Fatalf("parked: %v, error %v; want it parked after the second visit", r.parked, r.err)
	}
	s.WakeParked(true, AnyParked)
	if n := s.Count(); n != 0 {
		t.Errorf("%d connections are left", n)
	}
}
