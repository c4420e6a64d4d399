package proxy_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"shardway/peer/mux"
	"shardway/proxy"
	"shardway/shardmap"
)

// gated is a connection whose writes block while the gate is closed, as with a peer that does not read
// or a session with many writers.
type gated struct {
	net.Conn
	gate *sync.RWMutex
}

func (c gated) Write(p []byte) (int, error) {
	c.gate.RLock()
	defer c.gate.RUnlock()
	return c.Conn.Write(p)
}

// A client that disconnects before the first bytes of its stream are written aborts no other request.
func TestEarlyDisconnectEndsOwnStreamOnly(t *testing.T) {
	app, asked, answer := heldApp(t)
	ingress, owner := overStreams(pair)(t, app)
	var gate sync.RWMutex
	ingress.tap = func(c net.Conn) net.Conn { return gated{c, &gate} }
	stays := ingress.dial()
	stays.send("POST / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\nContent-Length: 0\r\n\r\n")
	until(t, "it runs", func() bool { return asked.Load() == 1 })
	gate.Lock()
	first := ingress.dial() // the writer is busy with this one
	first.send("GET /1 HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\n\r\n")
	until(t, "it has a lane", func() bool { return ingress.lanes.Load() == 2 })
	second := ingress.dial()
	second.send("GET /2 HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\n\r\n")
	until(t, "it has a lane, too", func() bool { return ingress.lanes.Load() == 3 })
	_ = second.Close()
	until(t, "it is noticed", func() bool { return !ingress.lane.Load().WouldBlock() })
	gate.Unlock()
	until(t, "the first one runs, or all broke", func() bool { return asked.Load() >= 2 || owner.running.Load() == 0 })
	close(answer)
	if res, body := stays.answer("POST"); res.StatusCode != 200 {
		t.Errorf("the POST of another client has %s %s", res.Status, strings.TrimSpace(body))
	}
}

// An unsafe request on an idle path is sent only after a ping has shown that the path works, just as a
// dial shows it for a new connection. If the owner has vanished, the request goes to the next owner of
// the shard.
func TestVanishedOwnerGetsNoUnsafeRequest(t *testing.T) {
	for _, lanes := range []bool{false, true} {
		t.Run(map[bool]string{false: "connections", true: "lanes"}[lanes], func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sim := newSim(t)
				owner, ingress := simNode(t, sim, "owner", simple), simNode(t, sim, "ingress", simple)
				ingress.knows("owner", owner)
				ingress.swap(1, 1, remote("owner", 1))
				if lanes {
					owner.acceptMuxSessions()
					ingress.enableStreams()
				}
				c := ingress.dial()
				c.get("/")
				time.Sleep(10 * time.Second)
				owner.host.Vanish()
				go func() {
					time.Sleep(2 * time.Second) // the lease has expired, and another node owns the shard
					ingress.swap(2, 2, local(2))
					ingress.CancelForwarded(func(shardmap.Shard, string) bool { return true })
				}()
				c.send("POST / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\nContent-Length: 0\r\n\r\n")
				if res, body := c.answer("POST"); res.StatusCode != 200 {
					t.Errorf("%s %s", res.Status, strings.TrimSpace(body))
				}
				_ = c.Close()
			})
		})
	}
}

// While few requests are in progress, each uses a connection of its own, because a mux session would
// cost more than it saves. Further requests share a session.
func TestFewRequestsUseOwnConns(t *testing.T) {
	app, asked, answer := heldApp(t)
	ingress, owner := pair(t, app)
	owner.acceptMuxSessions()
	ingress.shareMuxSessions()
	const more = 5
	var clients []*client
	for i := range proxy.StreamThreshold + more {
		c := ingress.dial()
		c.send("GET /%d HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\n\r\n", i)
		clients = append(clients, c)
		until(t, "it runs", func() bool { return int(asked.Load()) == i+1 })
	}
	if d, l := ingress.dials.Load(), ingress.lanes.Load(); d != proxy.StreamThreshold || l != more {
		t.Errorf("%d connections and %d lanes, want %d and %d", d, l, proxy.StreamThreshold, more)
	}
	close(answer)
	for _, c := range clients {
		c.answer("GET")
	}
	ingress.lane.Load().FailSession(net.ErrClosed) // a request that needs a stream must open a new session
	for range 3 {
		clients[0].get("/")
	}
	if d, l := ingress.dials.Load(), ingress.wanted.Load(); d != proxy.StreamThreshold || l != more {
		t.Errorf("%d connections, and %d that wanted a lane, after a lone request, want no more", d, l)
	}
}

// No request waits for a mux session. If a session cannot be established or has no streams left,
// requests use connections as without mux sessions, and the breaker stays closed.
func TestFailedSessionLeavesRequestsToConns(t *testing.T) {
	dead := func(_ context.Context, _ string) (net.Conn, error) {
		return nil, errors.New("refused the stream: 4096 streams of kind trunk are open")
	}
	silent := func(context.Context, string) (net.Conn, error) {
		near, _ := net.Pipe()
		return near, nil
	}
	slow := func(ctx context.Context, _ string) (net.Conn, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	breaks := func(context.Context, string) (net.Conn, error) {
		near, far := net.Pipe()
		_ = far.Close()
		return near, nil
	}
	for what, dial := range map[string]func(context.Context, string) (net.Conn, error){
		"refused": dead, "silent": silent, "slow": slow, "broken": breaks,
	} {
		t.Run(what, func(t *testing.T) {
			app, asked := sized(t)
			ingress, _ := pair(t, app)
			ingress.UseStreamsForAll()
			ingress.hurries = true
			s := mux.NewSessionSet(mux.MaxStreams, dial)
			ingress.muxSessions.Store(s)
			t.Cleanup(s.Close)
			c := ingress.dial()
			for i := range int32(5) {
				c.send("POST /small HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\nContent-Length: 0\r\n\r\n")
				if res, body := c.answer("POST"); res.StatusCode != 200 || asked.Load() != i+1 || ingress.dials.Load() != 1 {
					t.Fatalf("%s %s after %d runs and %d dials", res.Status, body, asked.Load(), ingress.dials.Load())
				}
			}
			if ingress.lanes.Load() != 0 {
				t.Error("a lane was opened")
			}
		})
	}
}

// After a silence, the first request uses a connection of its own while the session is pinged. The
// next requests use streams again.
func TestNoRequestWaitsForSilentSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sim := newSim(t)
		owner, ingress := simNode(t, sim, "owner", simple), simNode(t, sim, "ingress", simple)
		ingress.knows("owner", owner)
		ingress.swap(1, 1, remote("owner", 1))
		owner.acceptMuxSessions()
		ingress.enableStreams()
		c := ingress.dial()
		c.get("/")
		ingress.hurries = true
		want := func(dials, lanes int32) {
			t.Helper()
			c.send("POST / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\nContent-Length: 0\r\n\r\n")
			c.answer("POST")
			if d, l := ingress.dials.Load(), ingress.lanes.Load(); d != dials || l != lanes {
				t.Errorf("%d connections and %d lanes, want %d and %d", d, l, dials, lanes)
			}
		}
		want(0, 1)
		time.Sleep(10 * time.Second)
		want(1, 1)
		synctest.Wait()
		want(1, 1)
		_ = c.Close()
	})
}

// A client that stops reading in the middle of a response stalls only its own stream and occupies one
// window. Other responses continue.
func TestStalledClientOccupiesOneWindow(t *testing.T) {
	long := strings.Repeat("x", 64<<20)
	app := webApp(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/small" {
			_, _ = io.WriteString(w, long)
		}
	})
	ingress, _ := overStreams(pair)(t, app)
	for i := range 20 {
		ingress.dial().send("GET /%d HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\n\r\n", i)
	}
	until(t, "all have lanes", func() bool { return ingress.lanes.Load() == 20 })
	c := ingress.dial()
	for range 100 {
		if res, body := c.get("/small"); res.StatusCode != 200 {
			t.Fatalf("%s %s", res.Status, body)
		}
	}
}
