package proxy

import (
	"net"
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/valyala/fasthttp"

	"shardway/proxy/cause"
	"shardway/proxy/connpool"
	"shardway/proxy/route"
	"shardway/queue"
)

// briefly serves a connection on which the client sends nothing and disconnects, and calls meanwhile
// while it is open. It returns the client object that was used.
func briefly(t *testing.T, s *Server, ingress string, meanwhile func(c *client)) *client {
	t.Helper()
	near, far := net.Pipe()
	c := newClient(t.Context(), s, near, ingress)
	over := make(chan struct{})
	go c.serveAll(new(sync.WaitGroup), func() { close(over) })
	synctest.Wait()
	if meanwhile != nil {
		meanwhile(c)
	}
	_ = far.Close()
	<-over
	synctest.Wait()
	return c
}

// again reports whether one of the next connections reuses the client object c.
func again(t *testing.T, s *Server, c *client) bool {
	t.Helper()
	for range 50 {
		if next := briefly(t, s, "", nil); next == c {
			return true
		}
	}
	return false
}

// spareServer returns a Server for connections without requests.
func spareServer() *Server {
	return New(Options{Cluster: nowhereAt{}, Queue: queue.New(queue.Options{})})
}

// The client object of a failed connection to an in-process app is not reused, because the app may
// still read the request body or respond after the connection has ended.
func TestFailedHandlerConnIsNotReused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(Options{Cluster: nowhereAt{}, Queue: queue.New(queue.Options{}), Handler: func(*fasthttp.RequestCtx) {}})
		if c := briefly(t, s, "", nil); c.isReusable() || again(t, s, c) {
			t.Error("its memory is used again")
		}
	})
}

// nowhereAt is a Cluster that has no table yet.
type nowhereAt struct{ Cluster }

func (nowhereAt) Table() *route.Table { return route.NewTable(route.TableSpec{}) }

// A later connection reuses a client object. Without that, the tests of this file would prove nothing.
// Not every connection reuses one, because a sync.Pool drops some objects.
func TestClientMemoryIsReused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, seen := spareServer(), map[*client]bool{}
		for range 50 {
			seen[briefly(t, s, "", nil)] = true
		}
		if len(seen) > 40 {
			t.Errorf("50 connections took the memory of %d, want some of them to use it again", len(seen))
		}
	})
}

// A goroutine that has found a connection in Server.conns may still close it or read its shard, so the
// client object is not reused.
func TestVisitedClientIsNotReused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, end, ended := spareServer(), make(chan struct{}), make(chan struct{})
		c := briefly(t, s, "", func(*client) {
			go func() {
				defer close(ended)
				s.conns.Visit(nil, func([]*client) { <-end })
			}()
			synctest.Wait()
		})
		if again(t, s, c) {
			t.Error("another connection has the memory of one that is being looked at")
		}
		close(end)
		<-ended
		if again(t, s, c) {
			t.Error("another connection has the memory of one that was being looked at when it ended")
		}
	})
}

// A client object to which other parts of the Server refer is not reused.
func TestEscapedClientIsNotReused(t *testing.T) {
	for name, tc := range map[string]struct {
		ingress   string
		meanwhile func(c *client)
	}{
		"a stream of another node":    {"b", nil},
		"one that has waited":         {"", func(c *client) { c.life.Context() }},
		"one that was upgraded":       {"", func(c *client) { c.escaped = true }},
		"one that was ended here":     {"", func(c *client) { c.terminate(cause.Shutdown) }},
		"one whose body was sent on":  {"", func(c *client) { c.body.StartSending(c.conn.Writer(), 0); c.body.StopSending() }},
		"one that is watched":         {"", func(c *client) { c.disconnect.Arm() }},
		"one that counts for a shard": {"", func(c *client) { c.admission.end = noop }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := spareServer()
				if c := briefly(t, s, tc.ingress, tc.meanwhile); c.isReusable() || again(t, s, c) {
					t.Error("its memory is used again")
				}
			})
		})
	}
}

// A reused client object contains nothing of its last connection.
func TestReusedClientIsReset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := spareServer()
		for range 50 {
			over := briefly(t, s, "", func(c *client) {
				c.exchange.Key, c.clientAddr.Trusted, c.exchange.keepAlive = []byte("k"), true, true
				c.clientAddr.Addr = netip.AddrFrom4([4]byte{192, 0, 2, 1}) // the next connection has no such address
				c.body.Buffered, c.body.ExceedsBuffer, c.body.Unreadable = append(c.body.Buffered, "body"...), true, true
				c.idle.evicted.Store(true)
				c.slot.Begin(route.Local, 3, 0, &connpool.Conn{}, new(string))
				c.slot.Finish()
			})
			near, far := net.Pipe()
			c := newClient(t.Context(), s, near, "")
			_, _ = near.Close(), far.Close()
			if c != over {
				continue // the object was not reused this time
			}
			if c.exchange.Key != nil || c.exchange.keepAlive || c.clientAddr.Trusted || c.clientAddr.Addr.IsValid() || len(c.body.Buffered) > 0 || c.body.ExceedsBuffer || c.body.Unreadable || c.idle.evicted.Load() ||
				c.slot.Conn.Load() != nil || c.slot.Node.Load() != nil || c.slot.Load().Kind != 0 || c.life.Context().Err() != nil || c.unobserved {
				t.Errorf("it has something of the one before: %+v", &c.exchange)
			}
			return
		}
		t.Error("no connection has the memory of one before")
	})
}
