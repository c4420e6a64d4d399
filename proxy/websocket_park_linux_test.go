package proxy_test

import (
	"context"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"shardway/proxy"
	"shardway/proxy/route"
)

// parkedTest is an ingress with clients and two nodes that may own their shards, on real sockets. Idle
// upstream connections are parked at once.
type parkedTest struct {
	*testing.T
	app         *chat
	front, a, b *node
	nodes       []*node
	epoch       uint64
	each        int // parked directions for each WebSocket, at all nodes together
}

// inParked runs f for all routes from the client's node to the app.
func inParked(t *testing.T, f func(t *parkedTest)) {
	t.Helper()
	for way, each := range map[string]int{"local": 2, "apart": 4, "lanes": 4, "sealed lanes": 4} {
		t.Run(way, func(t *testing.T) {
			w := &parkedTest{T: t, app: &chat{t: t}, epoch: 1, each: each}
			app, soon := rawApp(t, w.app.serve), func(o *proxy.Options) { o.ReconnectSpread = time.Millisecond }
			w.front, w.b = newNode(t, "front", app, soon), newNode(t, "b", app, soon)
			w.a = w.front
			w.nodes = []*node{w.front, w.b}
			if way != "local" {
				w.a = newNode(t, "a", app, soon)
				w.nodes = append(w.nodes, w.a)
			}
			if strings.HasPrefix(way, "sealed") {
				seal(t, w.nodes...)
			}
			for _, n := range w.nodes {
				n.ParkAfter(time.Millisecond, time.Millisecond)
				for _, other := range w.nodes {
					n.knows(other.id, other)
				}
			}
			if strings.HasSuffix(way, "lanes") {
				w.a.acceptMuxSessions()
				w.b.acceptMuxSessions()
				w.front.enableWebSocketStreams()
			}
			w.own(w.a)
			f(w)
		})
	}
}

func (w *parkedTest) own(n *node) {
	for _, m := range w.nodes {
		if m == n {
			m.swap(w.epoch, w.epoch, local(w.epoch))
		} else {
			m.swap(w.epoch, w.epoch, remote(n.id, w.epoch))
		}
	}
	w.epoch++
}

// parks waits until this number of WebSockets is completely parked.
func (w *parkedTest) parks(many int) {
	w.Helper()
	until(w.T, fmt.Sprintf("%d sockets are parked", many), func() bool {
		n := 0
		for _, m := range w.nodes {
			n += int(metric(w.T, m, "shardway_idle_websocket_directions"))
		}
		return n == many*w.each
	})
}

// An idle WebSocket has no goroutine at any node. A message of either end wakes it, any number of
// times.
func TestIdleWebSocketsHaveNoGoroutine(t *testing.T) {
	inParked(t, func(t *parkedTest) {
		const many = 5
		var all []*client
		for range many {
			all = append(all, t.front.socket())
		}
		t.parks(many)
		stacks := make([]byte, 16<<20)
		until(t.T, "no goroutine mentions a leg", func() bool { // the goroutine that parks last may still have to return
			return !strings.Contains(string(stacks[:runtime.Stack(stacks, true)]), "wsrelay.(*Relay)")
		})
		for i := range 3 {
			for j, c := range all {
				c.sendText(strconv.Itoa(i))
				until(t.T, "the app has it", t.app.has(i*many+j+1))
				text := fmt.Sprint("to ", j, " ", i)
				if _, err := t.app.conn(j).Write(message(0x81, false, text)); err != nil {
					t.Fatal(err)
				}
				if got := c.receiveText(); got != text {
					t.Errorf("heard %q, want %q", got, text)
				}
			}
			t.parks(many)
		}
		for _, c := range all {
			_ = c.Close()
		}
		t.parks(0)
		until(t.T, "all are over", func() bool { return t.a.running.Load() == 0 })
	})
}

// Operations on WebSockets reach parked ones as well.
func TestParkedWebSocketsAreVisited(t *testing.T) {
	goesOn := func(gap string) func(t *parkedTest, c *client) {
		return func(t *parkedTest, c *client) {
			until(t.T, "the next leg", func() bool { return len(t.app.upgradeRequests()) == 2 })
			c.sendText("on")
			until(t.T, "it goes on", t.app.has(1))
			if h := t.app.upgradeRequests()[1]; h.Get("Shardway-WebSocket-Gap") != gap || h.Get("Shardway-WebSocket-Resumed") != "1" {
				t.Errorf("the next leg says %v, want gap %q", h, gap)
			}
		}
	}
	for what, tc := range map[string]struct {
		does func(t *parkedTest, c *client)
		then func(t *parkedTest, c *client)
	}{
		"its shard moves": {func(t *parkedTest, _ *client) {
			for _, m := range t.nodes {
				m.swap(t.epoch-1, t.epoch, held(route.ReasonMoving))
			}
			until(t.T, "the old owner is done", func() bool { return t.a.running.Load() == 0 })
			t.own(t.b)
		}, goesOn("")},
		"its owner loses the lease": {func(t *parkedTest, _ *client) {
			for _, m := range t.nodes {
				m.swap(t.epoch-1, t.epoch, held(route.ReasonOrphaned))
			}
			t.a.CancelUpstream("lapsed")
			t.own(t.b)
		}, goesOn("1")},
		"a move is rehearsed": {func(t *parkedTest, _ *client) {
			if n := t.front.MoveWebSockets(func(shardOf, uint64) bool { return true }, false); n != 1 {
				t.Errorf("%d sockets are told to move, want 1", n)
			}
		}, goesOn("")},
		"a break is": {func(t *parkedTest, _ *client) {
			t.front.MoveWebSockets(func(shardOf, uint64) bool { return true }, true)
		}, goesOn("1")},
		"its app ends it": {func(t *parkedTest, _ *client) {
			_, _ = t.app.conn(0).Write(message(0x88, false, "\x0f\xa1"))
		}, func(t *parkedTest, c *client) {
			if op, p, err := readMessage(c.r); op != 8 || string(p) != "\x0f\xa1" || err != nil {
				t.Errorf("closed with %x %q, %v", op, p, err)
			}
			c.send("%s", message(0x88, true, "\x0f\xa1"))
			c.closed()
		}},
		"its client leaves": {func(_ *parkedTest, c *client) { _ = c.Close() }, func(*parkedTest, *client) {}},
		"its node leaves": {func(t *parkedTest, _ *client) {
			go func() { _ = t.front.Shutdown(context.WithoutCancel(t.Context())) }()
		}, func(_ *parkedTest, c *client) { c.wantClosed(1012) }},
		"it is listed": {func(t *parkedTest, _ *client) {
			if got := t.front.WebSocketCounts(); len(got) != 1 || got[0].Attached != 1 {
				t.Errorf("sockets: %+v", got)
			}
		}, func(_ *parkedTest, c *client) { _ = c.Close() }},
	} {
		t.Run(what, func(t *testing.T) {
			inParked(t, func(t *parkedTest) {
				c := t.front.socket()
				t.parks(1)
				tc.does(t, c)
				tc.then(t, c)
				_ = c.Close()
				until(t.T, "it is over", func() bool { return t.a.running.Load()+t.b.running.Load() == 0 })
				t.parks(0)
			})
		})
	}
}

// A temporary lack of file descriptors does not prevent parking for long. Once, it kept both
// directions of an upstream connection unparked for the life of the connection, which may be days.
func TestRelaysParkAfterDescriptorsRanOut(t *testing.T) {
	inParked(t, func(t *parkedTest) {
		for _, n := range t.nodes {
			n.FailDescriptors(0, 3)
		}
		c := t.front.socket()
		t.parks(1)
		_ = c.Close()
	})
}
