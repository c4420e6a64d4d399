package proxy_test

import (
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"shardway/internal/simnet"
	"shardway/proxy"
	"shardway/proxy/route"
	"shardway/shardmap"
)

// socketTest is an ingress with clients and two nodes that may own the shards, in a synctest bubble.
// In one of the variants, the ingress is the first owner.
type socketTest struct {
	*testing.T
	sim         *simnet.Net
	app         *chat
	front, a, b *node
	epoch       uint64
	nodes       []*node
	local       bool
	lanes       bool // nodes use multiplexed streams
}

// inSockets runs f in three variants: the ingress is not the owner and uses a connection, the same
// with a multiplexed stream, and the ingress is the owner.
func inSockets(t *testing.T, app func() *chat, f func(t *socketTest), change ...func(*proxy.Options)) {
	t.Helper()
	for _, way := range []string{"apart", "local", "lanes"} {
		t.Run(way, func(t *testing.T) {
			local, lanes := way == "local", way == "lanes"
			synctest.Test(t, func(t *testing.T) {
				sim := newSim(t)
				w := &socketTest{T: t, sim: sim, app: app(), epoch: 1, local: local, lanes: lanes}
				w.app.t = t
				w.front = simNode(t, sim, "front", w.app.serve, change...)
				w.b = simNode(t, sim, "b", w.app.serve, change...)
				w.a = w.front
				w.nodes = []*node{w.front, w.b}
				if !local {
					w.a = simNode(t, sim, "a", w.app.serve, change...)
					w.nodes = append(w.nodes, w.a)
				}
				for _, n := range w.nodes {
					for _, other := range w.nodes {
						n.knows(other.id, other)
					}
				}
				if lanes {
					w.b.acceptMuxSessions()
					w.a.acceptMuxSessions()
					w.front.enableWebSocketStreams()
				}
				w.own(w.a)
				f(w)
			})
		})
	}
}

// own commits a map in which n owns all shards. The new owner learns of it first: otherwise, it would
// refuse an early upstream connection, and the ingress would open a further stream.
func (w *socketTest) own(n *node) {
	n.swap(w.epoch, w.epoch, local(w.epoch))
	for _, m := range w.nodes {
		if m != n {
			m.swap(w.epoch, w.epoch, remote(n.id, w.epoch))
		}
	}
	w.epoch++
}

// propose queues the requests of all shards, as during a proposed move.
func (w *socketTest) propose() {
	for _, m := range w.nodes {
		m.swap(w.epoch-1, w.epoch, held(route.ReasonMoving))
	}
}

// move moves all shards by plan.
func (w *socketTest) move(from, to *node) {
	w.Helper()
	w.propose()
	w.until("the old owner is done", func() bool { return from.running.Load() == 0 })
	w.own(to)
}

// until waits until ok returns true, in virtual time.
func (w *socketTest) until(what string, ok func() bool) {
	w.Helper()
	for range 40_000 {
		if synctest.Wait(); ok() {
			return
		}
		time.Sleep(time.Millisecond)
	}
	w.Fatalf("never: %s", what)
}

func plainChat() *chat { return &chat{} }

// Ten planned moves in a row lose and repeat no message in either direction while both ends send. The
// client sees nothing but messages.
func TestResumableWebSocketIsHandedOver(t *testing.T) {
	inSockets(t, func() *chat { return &chat{every: 3 * time.Millisecond, size: 200} }, func(t *socketTest) {
		c := t.front.socket()
		said, over := 0, make(chan struct{})
		done := make(chan struct{})
		go func() {
			defer close(done)
			for ; ; said++ {
				select {
				case <-over:
					return
				case <-time.After(2 * time.Millisecond):
				}
				c.sendText(strconv.Itoa(said))
			}
		}()
		moves := make(chan struct{})
		go func() {
			defer close(moves)
			from, to := t.a, t.b
			for range 10 {
				time.Sleep(20 * time.Millisecond)
				t.move(from, to)
				from, to = to, from
			}
			time.Sleep(20 * time.Millisecond)
			close(over)
			<-done
			c.send("%s", message(0x88, true, "\x03\xe8"))
		}()
		for want := 0; ; want++ {
			op, p, err := readMessage(c.r)
			if err != nil {
				t.Fatalf("after %d messages: %v", want, err)
			}
			if op == 8 {
				if string(p) != "\x03\xe8" {
					t.Errorf("closed with %q", p)
				}
				break
			}
			if n, _, _ := strings.Cut(string(p), " "); n != strconv.Itoa(want) {
				t.Fatalf("got %s, want %d", n, want)
			}
		}
		<-moves
		var want []string
		for i := range said {
			want = append(want, strconv.Itoa(i))
		}
		t.app.wantGot(want...)
		id := ""
		for i, h := range t.app.upgradeRequests() {
			if got := h.Get("Shardway-WebSocket"); len(got) != 32 || id != "" && got != id {
				t.Errorf("leg %d: id %q after %q", i, got, id)
			}
			id = h.Get("Shardway-WebSocket")
			if n := h.Get("Shardway-WebSocket-Resumed"); n != strconv.Itoa(i) && (i > 0 || n != "") || h.Get("Shardway-WebSocket-Gap") != "" {
				t.Errorf("leg %d: resumed %q, gap %q", i, n, h.Get("Shardway-WebSocket-Gap"))
			}
		}
		if n := len(t.app.upgradeRequests()); n != 11 || t.app.most != 1 {
			t.Errorf("%d legs, %d at once", n, t.app.most)
		}
		_ = c.Close()
	})
}

// If an owner crashes, its lease expires, or its path breaks, only the upstream connection ends. The
// next app instance learns that messages may be missing.
func TestResumableWebSocketSurvivesOwner(t *testing.T) {
	for name, end := range map[string]func(t *socketTest){
		"lease cut": func(t *socketTest) { t.a.CancelUpstream("lapsed") },
		"crash": func(t *socketTest) {
			if t.local {
				t.a.CancelUpstream("lapsed")
				return
			}
			t.a.host.Crash()
		},
		"abandoned": func(t *socketTest) {
			if t.front.CancelForwarded(func(_ shardOf, node string) bool { return node == "a" }) == 0 {
				t.a.CancelUpstream("lapsed")
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			inSockets(t, plainChat, func(t *socketTest) {
				c := t.front.socket()
				c.sendText("one")
				t.until("got", t.app.has(1))
				for _, m := range t.nodes {
					m.swap(t.epoch-1, t.epoch, held(route.ReasonOrphaned))
				}
				end(t)
				time.Sleep(time.Second)
				c.sendText("two")
				t.own(t.b)
				t.until("got", t.app.has(2))
				t.app.wantGot("one", "two")
				legs := t.app.upgradeRequests()
				if len(legs) != 2 || legs[1].Get("Shardway-WebSocket-Gap") != "1" || legs[1].Get("Shardway-WebSocket-Resumed") != "1" {
					t.Errorf("legs: %v", legs)
				}
				_ = c.Close()
			})
		})
	}
}

type shardOf = shardmap.Shard

// A WebSocket is a plain tunnel if the app does not permit resumption, if it selects an extension, or
// if the node disables resumption.
func TestWebSocketIsResumableOnlyIfAppPermits(t *testing.T) {
	right := "Sec-WebSocket-Accept: ICX+Yqv66kxgM0FcWaLWlFLwTAI=\r\n"
	for name, tc := range map[string]struct {
		lines string
		close bool
	}{
		"no word":   {lines: right},
		"extension": {lines: right + "Shardway-WebSocket: keep\r\nSec-WebSocket-Extensions: permessage-deflate\r\n"},
		"other":     {lines: right + "Shardway-WebSocket: kept\r\n"},
		"closed":    {lines: right + "Shardway-WebSocket: keep\r\n", close: true},
	} {
		t.Run(name, func(t *testing.T) {
			inSockets(t, func() *chat { return &chat{answer: func(int, http.Header) string { return tc.lines }} }, func(t *socketTest) {
				c := t.front.socket()
				if got := t.app.upgradeRequests()[0].Get("Shardway-WebSocket"); (got == "") != tc.close || strings.HasPrefix(got, "mine") {
					t.Errorf("the app was told %q", got)
				}
				t.move(t.a, t.b)
				c.wantClosed(1012)
				_ = c.Close()
			}, func(o *proxy.Options) { o.CloseSockets = tc.close })
		})
	}
}

// If the app responds to a resumption with anything but a suitable 101, the client's WebSocket is
// closed.
func TestUnsuitableResponseClosesClient(t *testing.T) {
	right := "Sec-WebSocket-Accept: ICX+Yqv66kxgM0FcWaLWlFLwTAI=\r\nShardway-WebSocket: keep\r\n"
	for name, tc := range map[string]struct {
		lines string
		code  int
	}{
		"wrong accept": {"Sec-WebSocket-Accept: AAAA\r\nShardway-WebSocket: keep\r\n", 1012},
		"subprotocol":  {right + "Sec-WebSocket-Protocol: other\r\n", 1012},
		"extension":    {right + "Sec-WebSocket-Extensions: x\r\n", 1012},
		"no word":      {"Sec-WebSocket-Accept: ICX+Yqv66kxgM0FcWaLWlFLwTAI=\r\n", 1012},
		"401":          {"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n", 1008},
		"403":          {"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n", 1008},
		"500":          {"HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n", 1012},
		"200":          {"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", 1012},
		"own code":     {"HTTP/1.1 403 Forbidden\r\nShardway-WebSocket-Close: 4001\r\nContent-Length: 0\r\n\r\n", 4001},
		"bad code":     {"HTTP/1.1 403 Forbidden\r\nShardway-WebSocket-Close: 1006\r\nContent-Length: 0\r\n\r\n", 1008},
	} {
		t.Run(name, func(t *testing.T) {
			inSockets(t, func() *chat {
				return &chat{answer: func(n int, _ http.Header) string {
					if n == 0 {
						return ""
					}
					return tc.lines
				}}
			}, func(t *socketTest) {
				c := t.front.socket()
				t.move(t.a, t.b)
				c.wantClosed(tc.code)
				if n := len(t.app.upgradeRequests()); n != 2 {
					t.Errorf("%d legs", n)
				}
				_ = c.Close()
			})
		})
	}
}

// An app that is unreachable or does not respond is retried until ResumeTimeout, and no longer.
func TestWebSocketWaitsForAppUntilResumeTimeout(t *testing.T) {
	for name, tc := range map[string]func(t *socketTest){
		"silence":  func(t *socketTest) { t.own(t.b) },
		"no owner": func(*socketTest) {},
		"no app": func(t *socketTest) {
			t.b.dialError.Store(true)
			for _, m := range t.nodes {
				m.swap(t.epoch, t.epoch, remote("nobody", t.epoch))
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			inSockets(t, func() *chat {
				return &chat{answer: func(n int, _ http.Header) string {
					if n > 0 {
						return "silence"
					}
					return ""
				}}
			}, func(t *socketTest) {
				c := t.front.socket()
				t.propose()
				t.until("the old owner is done", func() bool { return t.a.running.Load() == 0 })
				began := time.Now()
				tc(t)
				c.wantClosedFor(1012, "no app took the socket in time")
				if took := time.Since(began); took < 18*time.Second || took > 21*time.Second {
					t.Errorf("took %v", took)
				}
				_ = c.Close()
			})
		})
	}
}
