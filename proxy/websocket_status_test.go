package proxy_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"shardway/proxy"
	"shardway/proxy/route"
	"shardway/shardmap"
)

// wantMetric fails the test unless a metric of the client's node has the value want.
func (w *socketTest) wantMetric(want float64, name string, labels ...string) {
	w.Helper()
	if got := metric(w.T, w.front, name, labels...); got != want {
		w.Errorf("%s%v = %v, want %v", name, labels, got, want)
	}
}

// The client's node counts planned handovers and broken upstream connections separately, and measures
// how long a WebSocket waits between two upstream connections.
func TestRelaysAreCounted(t *testing.T) {
	inSockets(t, plainChat, func(t *socketTest) {
		c := t.front.socket()
		c.sendText("one")
		t.until("got", t.app.has(1))
		t.wantMetric(1, "shardway_resumable_websockets", "attached")
		t.propose()
		t.until("it is without a leg", func() bool { return metric(t.T, t.front, "shardway_resumable_websockets", "detached") == 1 })
		t.wantMetric(0, "shardway_resumable_websockets", "attached")
		time.Sleep(time.Second)
		t.own(t.b)
		t.until("a second leg", func() bool { return len(t.app.upgradeRequests()) == 2 })
		t.until("attached", func() bool { return metric(t.T, t.front, "shardway_resumable_websockets", "attached") == 1 })
		t.wantMetric(1, "shardway_websocket_upstream_connections_total", "first")
		t.wantMetric(1, "shardway_websocket_upstream_connections_total", "planned")
		t.wantMetric(1, "shardway_websocket_upstream_closes_total", "handed-over")
		t.wantMetric(1, "shardway_websocket_handover_duration_seconds", "planned")
		t.orphan()
		t.b.CancelUpstream("lapsed")
		t.own(t.b)
		t.until("a third leg", func() bool { return len(t.app.upgradeRequests()) == 3 })
		t.until("attached", func() bool { return metric(t.T, t.front, "shardway_resumable_websockets", "attached") == 1 })
		t.wantMetric(1, "shardway_websocket_upstream_connections_total", "gap")
		t.wantMetric(1, "shardway_websocket_upstream_closes_total", "gap")
		t.wantMetric(1, "shardway_websocket_handover_duration_seconds", "gap")
		t.wantMetric(2, "shardway_websocket_resumptions_total", "resumed")
		if t.b != t.front && metric(t.T, t.b, "shardway_websocket_upstream_connections_total") != 0 {
			t.Error("the owner counts legs whose client is elsewhere")
		}
		c.send("%s", message(0x88, true, "\x03\xe8"))
		c.wantClosed(1000)
		t.until("over", func() bool { return metric(t.T, t.front, "shardway_resumable_websockets") == 0 })
		t.wantMetric(1, "shardway_websocket_upstream_closes_total", "closed")
		_ = c.Close()
	})
}

// WebSockets that are not resumed are counted by the reason.
func TestLostWebSocketsAreCounted(t *testing.T) {
	for result, answer := range map[string]string{"late": "silence", "refused": "HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n"} {
		t.Run(result, func(t *testing.T) {
			inSockets(t, func() *chat {
				return &chat{answer: func(n int, _ http.Header) string {
					if n > 0 {
						return answer
					}
					return ""
				}}
			}, func(t *socketTest) {
				c := t.front.socket()
				t.move(t.a, t.b)
				c.wantClosed(map[string]int{"late": 1012, "refused": 1008}[result])
				t.until("it counts", func() bool { return metric(t.T, t.front, "shardway_websocket_resumptions_total", result) == 1 })
				t.wantMetric(1, "shardway_websocket_resumptions_total")
				t.wantMetric(0, "shardway_resumable_websockets")
				_ = c.Close()
			})
		})
	}
	app := &chat{t: t}
	n := newNode(t, "a", rawApp(t, app.serve), func(o *proxy.Options) { o.Shards = shards })
	c := n.socket()
	n.swap(1, 2, held(route.ReasonMoving))
	until(t, "it is without a leg", func() bool { return metric(t, n, "shardway_resumable_websockets", "detached") == 1 })
	_ = c.Close()
	until(t, "it counts", func() bool { return metric(t, n, "shardway_websocket_resumptions_total", "client-gone") == 1 })
}

// The client's node and the owner count WebSockets by shard. WebSockets that are not resumable are
// counted separately.
func TestWebSocketsAreCountedByShard(t *testing.T) {
	inSockets(t, plainChat, func(t *socketTest) {
		shard := shardmap.ShardOf("k", shards)
		c := t.front.socket()
		want := proxy.ShardWebSockets{Shard: shard, Attached: 1}
		if t.local {
			want.Resumable = 1
		} else if got := t.a.WebSocketCounts(); len(got) != 1 || got[0] != (proxy.ShardWebSockets{Shard: shard, Resumable: 1}) {
			t.Errorf("at the owner: %+v", got)
		}
		if got := t.front.WebSocketCounts(); len(got) != 1 || got[0] != want {
			t.Errorf("at the client's node: %+v, want %+v", got, want)
		}
		t.propose()
		t.until("it is without a leg", func() bool {
			got := t.front.WebSocketCounts()
			return len(got) == 1 && got[0] == proxy.ShardWebSockets{Shard: shard, Detached: 1}
		})
		_ = c.Close()
	})
	inSockets(t, plainChat, func(t *socketTest) {
		c := t.front.socket()
		if got := t.a.WebSocketCounts(); len(got) != 1 || got[0].Plain != 1 || got[0].Attached+got[0].Resumable != 0 {
			t.Errorf("of a socket that is not kept: %+v", got)
		}
		_ = c.Close()
	}, func(o *proxy.Options) { o.CloseSockets = true })
}

// A move test hands the upstream connection over to a new one at the same owner. With a gap, it aborts
// the upstream connection. WebSockets of other keys and shards are not affected.
func TestMoveTestHandsOver(t *testing.T) {
	for _, gap := range []bool{false, true} {
		t.Run(fmt.Sprint("gap=", gap), func(t *testing.T) {
			inSockets(t, plainChat, func(t *socketTest) {
				c := t.front.socket()
				c.sendText("one")
				t.until("got", t.app.has(1))
				shard, mark := shardmap.ShardOf("k", shards), proxy.WebSocketKeyHash("k")
				if n := t.front.MoveWebSockets(func(s shardmap.Shard, m uint64) bool { return s != shard || m != mark }, gap); n != 0 {
					t.Errorf("%d sockets of others are broken", n)
				}
				if n := t.front.MoveWebSockets(func(s shardmap.Shard, m uint64) bool { return s == shard && m == mark }, gap); n != 1 {
					t.Errorf("%d sockets are broken, want 1", n)
				}
				t.until("a second leg", func() bool { return len(t.app.upgradeRequests()) == 2 })
				c.sendText("two")
				t.until("got", t.app.has(2))
				t.app.wantGot("one", "two")
				if h := t.app.upgradeRequests()[1]; (h.Get("Shardway-WebSocket-Gap") == "1") != gap || h.Get("Shardway-WebSocket-Resumed") != "1" || t.app.most != 1 {
					t.Errorf("%v, %d legs at once", h, t.app.most)
				}
				if !t.local && t.a.MoveWebSockets(func(shardmap.Shard, uint64) bool { return true }, gap) != 0 {
					t.Error("the owner breaks legs whose client is elsewhere")
				}
				_ = c.Close()
			})
		})
	}
}

// A move test waits for an incomplete message of the client for up to drain-timeout, like a real move.
// Otherwise the WebSocket would stay between two upstream connections for as long as the client likes.
func TestMoveTestWaitsForMessageUntilDrainTimeout(t *testing.T) {
	for _, finished := range []bool{true, false} {
		t.Run(fmt.Sprint("finished=", finished), func(t *testing.T) {
			inSockets(t, plainChat, func(t *socketTest) {
				c := t.front.socket()
				whole := append(message(0x01, true, "wh"), message(0x80, true, "ole")...)
				c.send("%s", whole[:10])
				time.Sleep(10 * time.Millisecond)
				if n := t.front.MoveWebSockets(func(shardmap.Shard, uint64) bool { return true }, false); n != 1 {
					t.Fatalf("%d sockets are broken, want 1", n)
				}
				time.Sleep(4900 * time.Millisecond)
				if len(t.app.upgradeRequests()) != 1 {
					t.Fatal("the leg is over")
				}
				if !finished {
					c.wantClosedFor(1012, "a message was not whole when the shard had moved")
					t.until("released", func() bool { return t.a.running.Load() == 0 })
					t.app.wantGot()
					_ = c.Close()
					return
				}
				c.send("%s", whole[10:])
				t.until("a second leg", func() bool { return len(t.app.upgradeRequests()) == 2 })
				c.sendText("next")
				t.until("got", t.app.has(2))
				t.app.wantGot("whole", "next")
				_ = c.Close()
			})
		})
	}
}
