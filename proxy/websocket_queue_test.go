package proxy_test

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"shardway/internal/simnet"
	"shardway/proxy/route"
	"shardway/shardmap"
)

// A WebSocket that the app rejects during resumption frees its queue place. The next ones are sent at
// once, both at the owner and at other nodes, until all are answered.
func TestRejectedWebSocketsReleaseQueuePlaces(t *testing.T) {
	var now, most atomic.Int32
	inSockets(t, func() *chat {
		most.Store(0)
		return &chat{answer: func(_ int, head http.Header) string {
			if head.Get("Shardway-WebSocket-Resumed") == "" {
				return ""
			}
			if n := now.Add(1); n > most.Load() {
				most.Store(n)
			}
			time.Sleep(100 * time.Millisecond)
			now.Add(-1)
			return "HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n"
		}}
	}, func(t *socketTest) {
		var all []*client
		many := 200
		if raceEnabled {
			many = 40
		}
		for range many {
			all = append(all, t.front.socket(), t.b.socket())
		}
		t.move(t.a, t.b)
		for _, c := range all {
			c.wantClosedFor(1008, "the app did not take the socket") // 1012 is the code after ResumeTimeout
			_ = c.Close()
		}
		if n := most.Load(); n > 64 {
			t.Errorf("%d sockets were on their way back at once, want 64 at most", n)
		}
	})
}

// Many WebSockets can move over a slow path. Each resumption uses the connection to the next owner
// that was dialed for it, so a returned connection does not serve the waiting ones. Once, only a dozen
// dials ran at a time, and thousands of WebSockets exceeded their timeout on a busy machine or a long
// path.
func TestManyWebSocketsMoveOverSlowPath(t *testing.T) {
	many := 600
	if raceEnabled {
		many = 150
	}
	inSockets(t, plainChat, func(t *socketTest) {
		if t.local {
			return
		}
		all := make([]*client, many)
		for i := range all {
			all[i] = t.front.socket()
		}
		t.sim.SetLink(t.front.id, t.b.id, simnet.Link{Latency: 15 * time.Millisecond}) // 30 ms for each connection
		t.move(t.a, t.b)
		began := time.Now()
		for _, c := range all {
			c.sendText("on")
		}
		t.until("all go on", t.app.has(many))
		const few = 150 * time.Millisecond // until the mux session exists, and the pacer has found that more resumptions delay no node
		if took := time.Since(began); took > few+time.Duration(many)*time.Millisecond {
			t.Errorf("%d sockets took %v", many, took)
		}
		for _, c := range all {
			_ = c.Close()
		}
	})
}

// Requests for other shards of the owner do not wait behind resuming WebSockets, nor for the
// connections that these use.
func TestResumingWebSocketsDelayNoRequests(t *testing.T) {
	const many = 300
	app := func() *chat {
		return &chat{answer: func(_ int, head http.Header) string {
			if head.Get("Upgrade") == "" {
				return "HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n"
			}
			return ""
		}}
	}
	inSockets(t, app, func(t *socketTest) {
		moving := shardmap.ShardOfBytes([]byte("k"), shards)
		here, there := local(1), remote("b", 1)
		if !t.local {
			here = remote("a", 1)
		}
		split := func(to func(shardmap.Shard) route.Route, others func(shardmap.Shard) route.Route) func(shardmap.Shard) route.Route {
			return func(s shardmap.Shard) route.Route {
				if s == moving {
					return to(s)
				}
				return others(s)
			}
		}
		t.b.swap(1, 1, split(here, local(1)))
		t.a.swap(1, 1, split(local(1), there))
		t.front.swap(1, 1, split(here, there))
		all := make([]*client, many)
		for i := range all {
			all[i] = t.front.socket()
		}
		t.sim.SetLink(t.front.id, t.b.id, simnet.Link{Latency: 15 * time.Millisecond})
		ask := func() time.Duration {
			began := time.Now()
			c := t.front.dial()
			c.send("GET / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: other\r\n\r\n")
			if head, err := readHead(c.r); err != nil || !strings.HasPrefix(head, "HTTP/1.1 204") {
				t.Errorf("answer %q, %v", head, err)
			}
			_ = c.Close()
			return time.Since(began)
		}
		first, alone := ask(), ask() // the first one over a newly dialed connection
		for i, route := range []func(shardmap.Shard) route.Route{held(route.ReasonMoving), remote("b", 2)} {
			t.front.swap(1+uint64(i), 2, split(route, there))
			if t.a != t.front {
				t.a.swap(1+uint64(i), 2, split(route, there))
			}
			if i == 1 {
				route = local(2)
			}
			t.b.swap(1+uint64(i), 2, split(route, local(1)))
			t.until("the old owner is done", func() bool { return t.a.running.Load() == 0 })
		}
		time.Sleep(10 * time.Millisecond) // until they are queued
		took := make(chan time.Duration, 3)
		for range cap(took) { // all but one need a new connection
			go func() { took <- ask() }()
		}
		for range cap(took) {
			if longest := <-took; longest > first+time.Millisecond {
				t.Errorf("a request took %v beside the sockets, %v alone", longest, first)
			}
		}
		for t.b.running.Load() < many {
			if longest := ask(); longest > alone+time.Millisecond {
				t.Errorf("a request took %v beside the sockets, %v alone", longest, alone)
			}
		}
		for _, c := range all {
			_ = c.Close()
		}
	})
}
