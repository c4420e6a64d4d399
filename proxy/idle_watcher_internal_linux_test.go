package proxy

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"shardway/internal/rawio"
	"shardway/proxy/cause"
)

// parkingServer starts a Server that parks idle connections with the next sweep. It returns the
// Server, its address, and a function that closes the listener and waits until the Server has ended.
func parkingServer(t *testing.T) (s *Server, addr string, end func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s = spareServer()
	s.parkAfter.Store(0)
	s.parkSoon.Store(0)
	served := make(chan error, 1)
	go func() { served <- s.ServeClients(ctx, ln) }()
	end = sync.OnceFunc(func() {
		cancel()
		select {
		case err := <-served:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(10 * time.Second):
			t.Error("connections keep their listener")
		}
		if n := s.conns.count(); n != 0 {
			t.Errorf("%d connections are left", n)
		}
	})
	t.Cleanup(end)
	return s, ln.Addr().String(), end
}

// caller connects to addr.
func caller(t *testing.T, addr string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// comes waits until ok returns true.
func comes(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for late := time.Now().Add(10 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(late) {
			t.Fatalf("never: %s", what)
		}
	}
}

// onlyParked returns the only parked connection, or nil if there is none.
func (r *registry) onlyParked() *parkedConn {
	r.mu.Lock()
	defer r.mu.Unlock()
	for p := range r.parked.conns {
		return p
	}
	return nil
}

// waits returns the only client once it waits for a request.
func (r *registry) waits(t *testing.T) (one *client) {
	t.Helper()
	comes(t, "a client waits", func() bool {
		r.each(func(c *client) { one = c })
		return one != nil && one.idleStart.Load() != 0
	})
	return one
}

// detains returns once the client waits for the end of a visit before it is parked.
func (r *registry) detains(t *testing.T, one *client) {
	t.Helper()
	comes(t, "its goroutine waits until nobody looks", func() bool {
		one.conn.RequestPark()
		r.mu.Lock()
		defer r.mu.Unlock()
		if len(r.parked.conns) > 0 {
			t.Fatal("it is parked while somebody looks at it")
		}
		return r.parked.noVisits != nil
	})
}

// A visitor of a connection may close it. A connection that is parked at the same time would miss
// that, so it is not parked during a visit.
func TestVisitedConnIsNotParked(t *testing.T) {
	for what, tell := range map[string]func(c *client){
		"is cut":          func(c *client) { c.terminate(cause.Shutdown) },
		"is to end":       func(c *client) { c.conn.StopWaiting() },
		"is told nothing": nil,
	} {
		t.Run(what, func(t *testing.T) {
			s, addr, _ := parkingServer(t)
			s.parkAfter.Store(int64(time.Hour))
			far := caller(t, addr)
			one := s.conns.waits(t)
			s.conns.withClients(nil, func([]*client) {
				s.conns.detains(t, one)
				if tell != nil {
					tell(one)
				}
			})
			if tell == nil {
				comes(t, "it is parked", func() bool {
					if s.conns.countParked() == 1 {
						return true
					}
					s.conns.each(func(c *client) { c.conn.RequestPark() }) // after it waited too long, on a machine that was paused
					return false
				})
				return
			}
			comes(t, "it has ended", func() bool { return s.conns.count() == 0 })
			_ = far.SetReadDeadline(time.Now().Add(10 * time.Second))
			if _, err := far.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
				t.Errorf("%v, want the end", err)
			}
		})
	}
}

// Several connections wait for the end of a visit, and the next visit begins before all of them have
// been woken. They are parked nevertheless.
func TestConnIsParkedAfterNextVisit(t *testing.T) {
	s, addr, _ := parkingServer(t)
	s.parkAfter.Store(int64(time.Hour))
	caller(t, addr)
	one := s.conns.waits(t)
	r := &s.conns
	r.withClients(nil, func([]*client) {
		r.detains(t, one)
		r.mu.Lock() // one visit ends, and another one begins
		close(r.parked.noVisits)
		r.parked.noVisits = nil
		r.mu.Unlock()
		comes(t, "it waits for that one, too", func() bool {
			r.mu.Lock()
			defer r.mu.Unlock()
			return r.parked.noVisits != nil || !one.canPark.Load()
		})
	})
	comes(t, "it is parked", func() bool { return r.countParked() == 1 })
	if one.parkDelay.Load() != int64(time.Hour) {
		t.Error("it was tried twice")
	}
}

// During continuous visits, no connection is parked, and requests are answered.
func TestLongVisitDoesNotBlockRequests(t *testing.T) {
	s, addr, _ := parkingServer(t)
	s.parkAfter.Store(int64(time.Hour))
	far := caller(t, addr)
	one := s.conns.waits(t)
	s.conns.withClients(nil, func([]*client) {
		s.conns.detains(t, one)
		_, _ = io.WriteString(far, "GET\r\n\r\n") // an invalid request gets its response at once
		_ = far.SetReadDeadline(time.Now().Add(10 * time.Second))
		if _, err := far.Read(make([]byte, 1)); err != nil {
			t.Errorf("%v, want an answer", err)
		}
	})
	if s.conns.countParked() > 0 {
		t.Error("it is parked at once")
	}
}

// A visited connection is parked later. Once, a visit kept it from being parked for its whole life.
// Now it is tried again after twice the idle time.
func TestVisitedConnIsParkedLater(t *testing.T) {
	s, addr, _ := parkingServer(t)
	s.parkAfter.Store(int64(time.Hour))
	caller(t, addr)
	one := s.conns.waits(t)
	s.conns.withClients(nil, func([]*client) {
		s.conns.detains(t, one)
		comes(t, "it has waited in vain", func() bool { return !one.canPark.Load() || one.parkDelay.Load() < int64(time.Hour) })
	})
	comes(t, "it is parked", func() bool { return s.conns.countParked() == 1 })
}

// A connection to which more than the registry refers is not parked, because the other reference would
// be used later.
func TestEscapedConnIsNotParked(t *testing.T) {
	s, addr, _ := parkingServer(t)
	s.parkAfter.Store(int64(time.Hour))
	caller(t, addr)
	one := s.conns.waits(t)
	one.escaped = true
	comes(t, "it is found not to be for it", func() bool {
		one.conn.RequestPark()
		if s.conns.countParked() > 0 {
			t.Fatal("it is parked")
		}
		return !one.canPark.Load()
	})
}

// A late event of a connection that was already unparked does not unpark another connection, even if
// that one has the same descriptor.
func TestLateEventIsIgnored(t *testing.T) {
	s, addr, _ := parkingServer(t)
	caller(t, addr)
	var earlier []*parkedConn
	for range 4 {
		var p *parkedConn
		comes(t, "it is parked", func() bool { p = s.conns.onlyParked(); return p != nil })
		for _, old := range earlier {
			if s.conns.unparkOnce(old) { // as resumeReady does first
				t.Error("a late event has resumed a connection")
			}
		}
		if s.conns.onlyParked() != p {
			t.Error("a late event of another has resumed it")
		}
		earlier = append(earlier, p)
		s.conns.resumeReady(p, s.clock.Now())
	}
}

// The client, the sweep and an eviction may want to unpark the same connection at the same time. Only
// one of them gets it.
func TestParkedConnIsUnparkedOnce(t *testing.T) {
	s, addr, _ := parkingServer(t)
	for range 20 {
		far := caller(t, addr)
		var p *parkedConn
		comes(t, "it is parked", func() bool { p = s.conns.onlyParked(); return p != nil })
		begin := make(chan struct{})
		var all sync.WaitGroup
		for _, fetch := range []func(){
			func() { s.conns.closeParked(p) },
			func() { s.conns.closeParked(p) },
			func() { s.conns.wake(true, matchAll) },
			func() { s.conns.resumeReady(p, s.clock.Now()) },
			func() { s.conns.resumeReady(p, s.clock.Now()) },
			func() { _ = far.Close() },
		} {
			all.Go(func() {
				<-begin
				fetch()
			})
		}
		close(begin)
		all.Wait() // a second unpark would crash the process, because a counter would become negative
		comes(t, "it has ended", func() bool { return s.conns.count() == 0 })
	}
}

// A connection whose client returned soon after it was parked is parked later the next time.
func TestQuicklyReturningConnIsParkedLater(t *testing.T) {
	s, addr, _ := parkingServer(t)
	s.parkSoon.Store(int64(time.Hour))
	caller(t, addr)
	for _, c := range []struct {
		away, lag time.Duration
	}{{parkAfterReturn, 0}, {parkAfterReturn - 1, time.Hour}} {
		var p *parkedConn
		comes(t, "it is parked", func() bool { p = s.conns.onlyParked(); return p != nil })
		s.conns.resumeReady(p, p.idleSince+c.away)
		if c.lag == 0 {
			continue // it is parked again
		}
		comes(t, "it waits for longer", func() (found bool) {
			s.conns.each(func(one *client) { found = time.Duration(one.parkDelay.Load()) == c.lag })
			return found
		})
	}
}

// When a listener ends, its connections end at once, including parked ones.
func TestListenerEndAbortsParkedConns(t *testing.T) {
	s, addr, end := parkingServer(t)
	far := caller(t, addr)
	comes(t, "it is parked", func() bool { return s.conns.countParked() == 1 })
	end()
	_ = far.SetReadDeadline(time.Now().Add(10 * time.Second))
	if _, err := far.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("%v, want the end", err)
	}
}

// When the poller of a listener fails, its parked connections become ordinary connections again.
func TestConnsLeaveFailedWatcher(t *testing.T) {
	s, addr, _ := parkingServer(t)
	s.parkAfter.Store(int64(time.Hour))
	caller(t, addr)
	pollers := make(chan *rawio.Poller, 1)
	comes(t, "it is connected", func() (found bool) {
		s.conns.each(func(c *client) {
			found = true
			c.watcher.sockets.NewPoller = func() (*rawio.Poller, error) {
				p, err := rawio.NewPoller()
				pollers <- p
				return p, err
			}
			c.parkDelay.Store(0)
		})
		return found
	})
	comes(t, "it is parked", func() bool { return s.conns.countParked() == 1 })
	_ = (<-pollers).Close()
	comes(t, "it is a client again", func() (found bool) {
		s.conns.each(func(c *client) { found = !c.canPark.Load() })
		return found
	})
}
