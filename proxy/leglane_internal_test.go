package proxy

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"shardway/proxy/h1"
	"shardway/queue"
)

// What is opened for a socket is given to one, and a request that stands in line beside it has
// a connection made.
func TestLanesOfSocketsAreForSockets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		made := func(lone bool) *link {
			near, far := net.Pipe()
			t.Cleanup(func() { _ = near.Close(); _ = far.Close() })
			return &link{Conn: h1.NewConn(near, h1.Options{}), lone: lone}
		}
		s := New(Options{Room: queue.New(queue.Options{})})
		lanes, connections := make(chan struct{}), make(chan struct{}) // closed once they may be
		var dials atomic.Int32
		p := s.newPool("owner", func(context.Context) (*link, error) {
			dials.Add(1)
			<-connections
			return made(false), nil
		})
		p.leg = func(context.Context) *link {
			<-lanes
			return made(true)
		}
		request := &waiter{place: unshared}
		sockets := []*waiter{{place: unshared, keeps: true, lane: true}, {place: unshared, keeps: true}, {place: unshared, keeps: true, lane: true}}
		all := append(sockets, request)
		for _, w := range all {
			if l, _, err := p.join(w); l != nil || err != nil {
				t.Fatalf("join = %v, %v", l, err)
			}
		}
		synctest.Wait()
		if n := dials.Load(); n != 1 {
			t.Errorf("%d connections are being made for a request, while lanes are for sockets", n)
		}
		close(lanes)
		synctest.Wait()
		if len(request.turn) != 0 {
			t.Error("a request is given the lane of a socket")
		}
		close(connections)
		for i, w := range all {
			got := <-w.turn
			if got.l == nil || got.l.lone && !w.lane {
				t.Errorf("waiter %d is given %+v", i, got)
			}
			if got.l != nil {
				p.drop(got.l)
			}
		}
	})
}
