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
	"shardway/proxy/connset"
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
	s.parkDelays.Normal.Store(0)
	s.parkDelays.AfterReturn.Store(0)
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
		if n := s.conns.Count(); n != 0 {
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
func (s *Server) onlyParked() (one *connset.Parked) {
	s.conns.WakeParked(false, func(p *connset.Parked) bool {
		one = p
		return false
	})
	return one
}

// waits returns the only client once it waits for a request.
func (s *Server) waits(t *testing.T) (one *client) {
	t.Helper()
	comes(t, "a client waits", func() bool {
		s.conns.Each(func(c *client) { one = c })
		return one != nil && one.idle.start.Load() != 0
	})
	return one
}

// detains returns once the client waits for the end of a visit before it is parked.
func (s *Server) detains(t *testing.T, one *client) {
	t.Helper()
	comes(t, "its goroutine waits until nobody looks", func() bool {
		one.conn.RequestPark()
		if s.conns.CountParked() > 0 {
			t.Fatal("it is parked while somebody looks at it")
		}
		return s.conns.AwaitsVisits()
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
			s.parkDelays.Normal.Store(int64(time.Hour))
			far := caller(t, addr)
			one := s.waits(t)
			s.conns.Visit(nil, func([]*client) {
				s.detains(t, one)
				if tell != nil {
					tell(one)
				}
			})
			if tell == nil {
				comes(t, "it is parked", func() bool {
					if s.conns.CountParked() == 1 {
						return true
					}
					s.conns.Each(func(c *client) { c.conn.RequestPark() }) // after it waited too long, on a machine that was paused
					return false
				})
				return
			}
			comes(t, "it has ended", func() bool { return s.conns.Count() == 0 })
			_ = far.SetReadDeadline(time.Now().Add(10 * time.Second))
			if _, err := far.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
				t.Errorf("%v, want the end", err)
			}
		})
	}
}

// During continuous visits, no connection is parked, and requests are answered.
func TestLongVisitDoesNotBlockRequests(t *testing.T) {
	s, addr, _ := parkingServer(t)
	s.parkDelays.Normal.Store(int64(time.Hour))
	far := caller(t, addr)
	one := s.waits(t)
	s.conns.Visit(nil, func([]*client) {
		s.detains(t, one)
		_, _ = io.WriteString(far, "GET\r\n\r\n") // an invalid request gets its response at once
		_ = far.SetReadDeadline(time.Now().Add(10 * time.Second))
		if _, err := far.Read(make([]byte, 1)); err != nil {
			t.Errorf("%v, want an answer", err)
		}
	})
	if s.conns.CountParked() > 0 {
		t.Error("it is parked at once")
	}
}

// A visited connection is parked later. Once, a visit kept it from being parked for its whole life.
// Now it is tried again after twice the idle time.
func TestVisitedConnIsParkedLater(t *testing.T) {
	s, addr, _ := parkingServer(t)
	s.parkDelays.Normal.Store(int64(time.Hour))
	caller(t, addr)
	one := s.waits(t)
	s.conns.Visit(nil, func([]*client) {
		s.detains(t, one)
		comes(t, "it has waited in vain", func() bool { return !one.idle.canPark.Load() || one.idle.parkDelay.Load() < int64(time.Hour) })
	})
	comes(t, "it is parked", func() bool { return s.conns.CountParked() == 1 })
}

// A connection to which more than Server.conns refers is not parked, because the other reference would
// be used later.
func TestEscapedConnIsNotParked(t *testing.T) {
	s, addr, _ := parkingServer(t)
	s.parkDelays.Normal.Store(int64(time.Hour))
	caller(t, addr)
	one := s.waits(t)
	one.escaped = true
	comes(t, "it is found not to be for it", func() bool {
		one.conn.RequestPark()
		if s.conns.CountParked() > 0 {
			t.Fatal("it is parked")
		}
		return !one.idle.canPark.Load()
	})
}

// A late event of a connection that was already unparked does not unpark another connection, even if
// that one has the same descriptor.
func TestLateEventIsIgnored(t *testing.T) {
	s, addr, _ := parkingServer(t)
	caller(t, addr)
	var earlier []*connset.Parked
	for range 4 {
		var p *connset.Parked
		comes(t, "it is parked", func() bool { p = s.onlyParked(); return p != nil })
		for _, old := range earlier {
			if s.conns.ResumeReadable(old, s.clock.Now()) {
				t.Error("a late event has resumed a connection")
			}
		}
		if s.onlyParked() != p {
			t.Error("a late event of another has resumed it")
		}
		earlier = append(earlier, p)
		s.conns.ResumeReadable(p, s.clock.Now())
	}
}

// The client, the sweep and an eviction may want to unpark the same connection at the same time. Only
// one of them gets it.
func TestParkedConnIsUnparkedOnce(t *testing.T) {
	s, addr, _ := parkingServer(t)
	for range 20 {
		far := caller(t, addr)
		var p *connset.Parked
		comes(t, "it is parked", func() bool { p = s.onlyParked(); return p != nil })
		begin := make(chan struct{})
		var all sync.WaitGroup
		for _, fetch := range []func(){
			func() { s.evictIdle(0, 1) },
			func() { s.evictIdle(0, 1) },
			func() { s.conns.WakeParked(true, connset.AnyParked) },
			func() { s.conns.ResumeReadable(p, s.clock.Now()) },
			func() { s.conns.ResumeReadable(p, s.clock.Now()) },
			func() { _ = far.Close() },
		} {
			all.Go(func() {
				<-begin
				fetch()
			})
		}
		close(begin)
		all.Wait() // a second unpark would crash the process, because a counter would become negative
		comes(t, "it has ended", func() bool { return s.conns.Count() == 0 })
	}
}

// A connection whose client returned soon after it was parked is parked later the next time.
func TestQuicklyReturningConnIsParkedLater(t *testing.T) {
	s, addr, _ := parkingServer(t)
	s.parkDelays.AfterReturn.Store(int64(time.Hour))
	caller(t, addr)
	for _, c := range []struct {
		away, lag time.Duration
	}{{connset.ReturnSoon, 0}, {connset.ReturnSoon - 1, time.Hour}} {
		var p *connset.Parked
		comes(t, "it is parked", func() bool { p = s.onlyParked(); return p != nil })
		s.conns.ResumeReadable(p, p.IdleSince+c.away)
		if c.lag == 0 {
			continue // it is parked again
		}
		comes(t, "it waits for longer", func() (found bool) {
			s.conns.Each(func(one *client) { found = time.Duration(one.idle.parkDelay.Load()) == c.lag })
			return found
		})
	}
}

// When a listener ends, its connections end at once, including parked ones.
func TestListenerEndAbortsParkedConns(t *testing.T) {
	s, addr, end := parkingServer(t)
	far := caller(t, addr)
	comes(t, "it is parked", func() bool { return s.conns.CountParked() == 1 })
	end()
	_ = far.SetReadDeadline(time.Now().Add(10 * time.Second))
	if _, err := far.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("%v, want the end", err)
	}
}

// When the poller of a listener fails, its parked connections become ordinary connections again.
func TestConnsLeaveFailedWatcher(t *testing.T) {
	s, addr, _ := parkingServer(t)
	s.parkDelays.Normal.Store(int64(time.Hour))
	caller(t, addr)
	pollers := make(chan *rawio.Poller, 1)
	comes(t, "it is connected", func() (found bool) {
		s.conns.Each(func(c *client) {
			found = true
			c.listener.watcher.Sockets.NewPoller = func() (*rawio.Poller, error) {
				p, err := rawio.NewPoller()
				pollers <- p
				return p, err
			}
			c.idle.parkDelay.Store(0)
		})
		return found
	})
	comes(t, "it is parked", func() bool { return s.conns.CountParked() == 1 })
	_ = (<-pollers).Close()
	comes(t, "it is a client again", func() (found bool) {
		s.conns.Each(func(c *client) { found = !c.idle.canPark.Load() })
		return found
	})
}

// A connection with buffered data is not parked. Parking keeps the socket only, so the data would be
// lost, and the rest would be parsed as a request.
func TestBufferedDataPreventsParking(t *testing.T) {
	s := spareServer()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ln.Close() }()
	far := caller(t, ln.Addr().String())
	conn, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	l := newClientListener(t.Context(), s)
	defer l.watcher.Sockets.Close()
	c := newClient(t.Context(), s, conn, "")
	l.initClient(c, connset.Resumed{Conn: conn})
	s.conns.Add(c)
	defer func() { _ = c.conn.Close() }()
	if _, err = io.WriteString(far, "GET / HT"); err != nil {
		t.Fatal(err)
	}
	if some, err := c.conn.WaitReadable(10 * time.Second); !some || err != nil {
		t.Fatalf("nothing has come: %v", err)
	}
	if c.parkConn() {
		t.Error("it is parked, with half a head that was read")
	}
	s.conns.Remove(c)
}
