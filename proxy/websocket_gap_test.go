package proxy_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"shardway/proxy"
	"shardway/proxy/route"
	"shardway/proxy/wsframe"
)

// orphan removes the owner of the shards without a handover.
func (w *socketTest) orphan() {
	for _, m := range w.nodes {
		m.swap(w.epoch-1, w.epoch, held(route.ReasonOrphaned))
	}
}

// An app may crash at any byte of a message. The client gets complete messages only, in order, and the
// next app instance learns of the gap. If a part of a message that is too long to buffer was already
// forwarded, the client's connection ends.
func TestAppDiesWithinMessage(t *testing.T) {
	long := strings.Repeat("y", 70_000)
	frame := append(message(0x81, false, "first"), message(0x01, false, "sec")...)
	frame = append(frame, message(0x89, false, "ping")...)
	frame = append(frame, message(0x80, false, "ond")...)
	for at := 0; at <= len(frame); at++ {
		inSockets(t, plainChat, func(t *socketTest) {
			c := t.front.socket()
			c.sendText("hello")
			t.until("got", t.app.has(1))
			_, _ = t.app.conn(0).Write(frame[:at])
			time.Sleep(10 * time.Millisecond)
			t.orphan()
			_ = t.app.conn(0).Close()
			time.Sleep(10 * time.Millisecond)
			t.own(t.b)
			t.until("the next leg", func() bool { return len(t.app.upgradeRequests()) == 2 })
			c.sendText("again")
			t.until("got", t.app.has(2))
			_, _ = t.app.conn(1).Write(message(0x81, false, "last"))
			want := ""
			switch {
			case at == len(frame):
				want = "first second "
			case at >= 7:
				want = "first "
			}
			got := ""
			for !strings.HasSuffix(got, "last") {
				op, p, err := readMessage(c.r)
				if err != nil {
					t.Fatalf("at %d: %v after %q", at, err, got)
				}
				if op == wsframe.OpText {
					got += string(p) + " "
				}
				got = strings.TrimSuffix(got, "last ") + strings.Repeat("last", strings.Count(got, "last "))
			}
			if got != want+"last" {
				t.Errorf("at %d: got %q, want %q", at, got, want+"last")
			}
			if h := t.app.upgradeRequests()[1]; h.Get("Shardway-WebSocket-Gap") != "1" {
				t.Errorf("at %d: %v", at, h)
			}
			_ = c.Close()
		})
	}
	t.Run("long", func(t *testing.T) {
		inSockets(t, plainChat, func(t *socketTest) {
			c := t.front.socket()
			whole := message(0x81, false, long)
			_, _ = t.app.conn(0).Write(whole[:69_000])
			time.Sleep(10 * time.Millisecond)
			t.orphan()
			_ = t.app.conn(0).Close()
			t.own(t.b)
			c.wantClosed(0)
			if n := len(t.app.upgradeRequests()); n != 1 {
				t.Errorf("%d legs", n)
			}
			_ = c.Close()
		})
	})
}

// If the upstream connection breaks inside a message of the client, the next app instance gets neither
// its beginning nor its rest. It gets the messages that follow.
func TestRestOfBrokenMessageIsDiscarded(t *testing.T) {
	whole := append(message(0x01, true, "bro"), message(0x80, true, "ken")...)
	for at := 1; at < len(whole); at++ {
		inSockets(t, plainChat, func(t *socketTest) {
			c := t.front.socket()
			c.sendText("one")
			c.send("%s", whole[:at])
			t.until("got", t.app.has(1))
			time.Sleep(10 * time.Millisecond)
			t.orphan()
			t.a.CancelUpstream("lapsed")
			time.Sleep(10 * time.Millisecond)
			t.own(t.b)
			c.send("%s", whole[at:])
			c.sendText("two")
			t.until("got", t.app.has(2))
			t.app.wantGot("one", "two")
			_ = c.Close()
		})
	}
}

// A move waits until an incomplete message of the client is complete. After the timeout, both ends are
// closed and asked to reconnect.
func TestIncompleteMessageDuringMove(t *testing.T) {
	for _, finished := range []bool{true, false} {
		t.Run(fmt.Sprint("finished=", finished), func(t *testing.T) {
			inSockets(t, plainChat, func(t *socketTest) {
				c := t.front.socket()
				whole := append(message(0x01, true, "wh"), message(0x80, true, "ole")...)
				c.send("%s", whole[:10])
				time.Sleep(10 * time.Millisecond)
				t.propose()
				time.Sleep(2 * time.Second)
				if t.a.running.Load() != 1 {
					t.Fatal("the leg is over")
				}
				if !finished {
					t.a.CancelShards(allShards, "draining")
					c.wantClosedFor(1012, "a message was not whole when the shard had moved")
					t.until("released", func() bool { return t.a.running.Load() == 0 })
					t.app.wantGot()
					_ = c.Close()
					return
				}
				c.send("%s", append(append([]byte(nil), whole[10:]...), message(0x81, true, "next")...))
				t.until("the old owner is done", func() bool { return t.a.running.Load() == 0 })
				t.app.wantGot("whole")
				t.own(t.b)
				t.until("got", t.app.has(2))
				t.app.wantGot("whole", "next")
				if h := t.app.upgradeRequests()[1]; h.Get("Shardway-WebSocket-Gap") != "" && t.local {
					t.Errorf("a completed hand-over has a gap: %v", h)
				}
				_ = c.Close()
			})
		})
	}
}

// A Close frame of either end is final, even if it races with a move. The other end gets it once.
func TestCloseRacesTheMove(t *testing.T) {
	for _, before := range []bool{true, false} {
		for name, say := range map[string]func(t *socketTest, c *client){
			"client": func(_ *socketTest, c *client) { c.send("%s", message(0x88, true, "\x0f\xa0")) },
			"app":    func(t *socketTest, _ *client) { _, _ = t.app.conn(0).Write(message(0x88, false, "\x0f\xa0")) },
		} {
			t.Run(fmt.Sprint(name, before), func(t *testing.T) {
				inSockets(t, plainChat, func(t *socketTest) {
					c := t.front.socket()
					c.sendText("x")
					t.until("got", t.app.has(1))
					if before {
						say(t, c)
						t.propose()
					} else {
						t.propose()
						say(t, c)
					}
					time.Sleep(100 * time.Millisecond)
					if name == "client" {
						t.own(t.b)
						c.wantClosed(4000)
					} else if before {
						c.wantClosed(4000)
					}
					_ = c.Close()
				})
			})
		}
	}
}

// Close code 1012 of the app requests another upstream connection. Any other code is forwarded to the
// client.
func TestAppRequestsHandover(t *testing.T) {
	inSockets(t, plainChat, func(t *socketTest) {
		c := t.front.socket()
		c.sendText("one")
		t.until("got", t.app.has(1))
		_, _ = t.app.conn(0).Write(message(0x88, false, "\x03\xf4"))
		c.sendText("two")
		t.until("a second leg", func() bool { return len(t.app.upgradeRequests()) == 2 })
		if h := t.app.upgradeRequests()[1]; h.Get("Shardway-WebSocket-Gap") != "1" || t.app.most > 2 {
			t.Errorf("%v", h)
		}
		_, _ = t.app.conn(1).Write(message(0x88, false, "\x0f\xa1"))
		c.wantClosed(4001)
		_ = c.Close()
	})
}

// An app that closes the connection without a Close frame, but still accepts connections, has ended
// the WebSocket.
func TestAppEndsWithoutCloseFrame(t *testing.T) {
	inSockets(t, plainChat, func(t *socketTest) {
		c := t.front.socket()
		c.sendText("one")
		t.until("got", t.app.has(1))
		_ = t.app.conn(0).Close()
		c.wantClosed(0)
		if n := len(t.app.upgradeRequests()); n != 1 {
			t.Errorf("%d legs", n)
		}
		_ = c.Close()
	})
}

// Each end of an upstream connection is followed by a check whether the app still accepts connections.
// The result for one WebSocket is not reused for another: here the app crashes in between, and the
// other WebSocket resumes after the app's restart.
func TestAppDiesRightAfterWebSocketEnded(t *testing.T) {
	var gone atomic.Bool
	inSockets(t, plainChat, func(t *socketTest) {
		gone.Store(false)
		one, other := t.front.socket(), t.front.socket()
		one.sendText("one")
		other.sendText("other")
		t.until("got", t.app.has(2))
		_ = t.app.conn(0).Close()
		one.wantClosed(0)
		gone.Store(true)
		_ = t.app.conn(1).Close()
		time.Sleep(time.Second)
		gone.Store(false)
		t.until("the other one is back", func() bool { return len(t.app.upgradeRequests()) == 3 })
		if h := t.app.upgradeRequests()[2]; h.Get("Shardway-WebSocket-Gap") != "1" {
			t.Errorf("leg: %v", h)
		}
		_ = one.Close()
		_ = other.Close()
	}, func(o *proxy.Options) {
		dial := o.DialUpstream
		o.DialUpstream = func(ctx context.Context) (net.Conn, error) {
			if gone.Load() {
				return nil, errors.New("connection refused")
			}
			return dial(ctx)
		}
	})
}

// A crashed app loses its connections and accepts no new ones. Its clients' WebSockets resume after
// its restart.
func TestAppRestartsDuringWebSocket(t *testing.T) {
	app := &chat{t: t}
	var ln net.Listener
	addr := ""
	start := func() {
		var err error
		if ln, err = net.Listen("tcp", cmpOr(addr, "127.0.0.1:0")); err != nil {
			t.Fatal(err)
		}
		addr = ln.Addr().String()
		own := ln
		go func() {
			for {
				conn, err := own.Accept()
				if err != nil {
					return
				}
				go app.serve(conn, newReader(conn))
			}
		}()
	}
	start()
	t.Cleanup(func() { _ = ln.Close() })
	for way, begin := range ways() {
		t.Run(way, func(t *testing.T) {
			app.t, app.heads, app.got, app.conns = t, nil, nil, nil
			front, _ := begin(t, addr)
			c := front.socket()
			c.sendText("one")
			until(t, "got", app.has(1))
			_ = ln.Close()
			_ = app.conn(0).Close()
			until(t, "without a leg", func() bool { return front.WebSocketsQueued() == 1 })
			c.sendText("two")
			start()
			until(t, "got", app.has(2))
			app.wantGot("one", "two")
			if h := app.upgradeRequests()[1]; h.Get("Shardway-WebSocket-Gap") != "1" {
				t.Errorf("%v", h)
			}
			_ = c.Close()
		})
	}
}

// Up to three upstream connections may break within a minute. After the fourth break, the client's
// WebSocket is closed, and the client must reconnect.
func TestRelaysThatBreakTooOften(t *testing.T) {
	inSockets(t, plainChat, func(t *socketTest) {
		c := t.front.socket()
		for i := range 4 {
			t.until("a leg", func() bool { return len(t.app.upgradeRequests()) == i+1 && t.a.running.Load() == 1 })
			time.Sleep(5 * time.Second)
			t.a.CancelUpstream("lapsed")
		}
		c.wantClosedFor(1012, "the connection to the app broke too often")
		if n := len(t.app.upgradeRequests()); n != 4 {
			t.Errorf("%d legs", n)
		}
		_ = c.Close()
	})
}

// A node that shuts down closes its clients' WebSockets over a period of time, not all at once, and
// asks the clients to reconnect.
func TestLeavingNodeClosesItsClients(t *testing.T) {
	inSockets(t, plainChat, func(t *socketTest) {
		var all []*client
		for range 8 {
			all = append(all, t.front.socket())
		}
		waiting := t.front.socket()
		_ = waiting
		began := time.Now()
		shut := make(chan error, 1)
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		go func() { shut <- t.front.Shutdown(ctx) }()
		first, last := time.Hour, time.Duration(0)
		for _, c := range append(all, waiting) {
			c.wantClosedFor(1012, "the node is leaving")
			first, last = min(first, time.Since(began)), max(last, time.Since(began))
			_ = c.Close()
		}
		if err := <-shut; err != nil || last > 16*time.Second || last < time.Second {
			t.Errorf("Shutdown = %v; closed from %v to %v", err, first, last)
		}
	}, func(o *proxy.Options) { o.ReconnectSpread = 15 * time.Second })
}

// An owner that learns of a move hands its WebSockets over even if the client's node has not learned
// of the move. Messages that the client sends in the meantime may be lost, so the next app instance learns
// of a gap.
func TestOwnerHandsOverWithoutIngress(t *testing.T) {
	inSockets(t, plainChat, func(t *socketTest) {
		if t.local {
			return
		}
		c := t.front.socket()
		c.sendText("one")
		t.until("got", t.app.has(1))
		t.a.swap(t.epoch-1, t.epoch, held(route.ReasonMoving))
		began := time.Now()
		t.until("the owner is done", func() bool { return t.a.running.Load() == 0 })
		if took := time.Since(began); took < time.Second || took > 1200*time.Millisecond {
			t.Errorf("took %v", took)
		}
		t.until("without a leg", func() bool { return t.front.WebSocketsQueued() == 1 })
		t.own(t.b)
		c.sendText("two")
		t.until("got", t.app.has(2))
		if h := t.app.upgradeRequests()[1]; h.Get("Shardway-WebSocket-Gap") != "1" {
			t.Errorf("%v", h)
		}
		_ = c.Close()
	})
}

// A Ping inside an incomplete message is answered at once, while the message waits.
func TestPingPassesIncompleteMessage(t *testing.T) {
	inSockets(t, plainChat, func(t *socketTest) {
		c := t.front.socket()
		_ = c.SetReadDeadline(time.Now().Add(time.Minute))
		_, _ = t.app.conn(0).Write(append(message(0x01, false, "be"), message(0x89, false, "now")...))
		if op, p, err := readMessage(c.r); op != wsframe.OpPing || string(p) != "now" {
			t.Fatalf("%x %q %v", op, p, err)
		}
		_, _ = t.app.conn(0).Write(message(0x80, false, "gun"))
		if got := c.receiveText(); got != "begun" {
			t.Errorf("got %q", got)
		}
		_ = c.Close()
	})
}

// An owner may still have an upstream connection after the client's node has lost contact with it. The
// app still never has two upstream connections of one WebSocket.
func TestAppHasOneRelayPerSession(t *testing.T) {
	inSockets(t, plainChat, func(t *socketTest) {
		if t.local {
			return
		}
		const again = "Shardway-Map: 1 1\r\nShardway-Shard: 3\r\nShardway-WebSocket: 0123456789abcdef0123456789abcdef\r\nShardway-WebSocket-Resumed: "
		request := strings.Replace(socketRequest, "Shardway-WebSocket: mine\r\nShardway-WebSocket-Gap: 1\r\n", again, 1)
		var all []*client
		for i := range 3 {
			c := t.a.stream()
			c.send("%s", strings.Replace(request, again, again+strconv.Itoa(i+1)+"\r\n", 1))
			head, err := readHead(c.r)
			if err != nil || !strings.Contains(head, "Shardway-WebSocket: kept\r\n") {
				t.Fatalf("head = %q, %v", head, err)
			}
			all = append(all, c)
		}
		if t.app.most != 1 || len(t.app.upgradeRequests()) != 3 {
			t.Errorf("%d legs at once of %d", t.app.most, len(t.app.upgradeRequests()))
		}
		for _, c := range all {
			_ = c.Close()
		}
	})
}

// After an upstream connection has broken inside a client's message, the client's Close frame is still
// forwarded. An app that does not answer it keeps the WebSocket no longer than any other app does.
func TestAppIgnoresCloseAfterBrokenMessage(t *testing.T) {
	inSockets(t, func() *chat {
		return &chat{goodbye: func(conn net.Conn, _ int) bool {
			_, _ = io.Copy(io.Discard, conn)
			return true
		}}
	}, func(t *socketTest) {
		c := t.front.socket()
		c.sendText("one")
		c.send("%s", message(0x01, true, "bro"))
		t.until("got", t.app.has(1))
		time.Sleep(10 * time.Millisecond)
		t.orphan()
		t.a.CancelUpstream("lapsed")
		time.Sleep(10 * time.Millisecond)
		t.own(t.front)
		t.until("a second leg", func() bool { return len(t.app.upgradeRequests()) == 2 && t.front.running.Load() == 1 })
		c.send("%s", message(0x88, true, "\x0f\xa0"))
		time.Sleep(61 * time.Second)
		t.until("the leg is over", func() bool { return t.front.running.Load() == 0 })
		c.wantClosed(4000)
		_ = c.Close()
	})
}

// If the owner crashes, a slow client gets time to read the buffered data, and then the WebSocket
// resumes. No shard waits for the client.
func TestSlowClientSurvivesOwner(t *testing.T) {
	inSockets(t, func() *chat { return &chat{every: time.Millisecond, size: 30_000} }, func(t *socketTest) {
		if t.local {
			return
		}
		c := t.front.socket()
		time.Sleep(100 * time.Millisecond)
		t.orphan()
		t.a.host.Crash()
		t.front.CancelForwarded(func(_ shardOf, node string) bool { return node == "a" })
		time.Sleep(time.Second)
		t.own(t.b)
		for len(t.app.upgradeRequests()) < 2 {
			c.receiveText()
		}
		_ = c.Close()
	})
}
