package proxy_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"shardway/proxy"
	"shardway/proxy/route"
	"shardway/proxy/wsframe"
)

// parlance returns the client's frames for TestWebSocketMovesAtEachByte: fragments, Pings inside and
// outside messages, an empty message, and all header lengths except the longest.
func parlance() (frames []byte, want []string) {
	long := strings.Repeat("l", 130)
	frames = append(frames, message(0x01, true, "fr")...)
	frames = append(frames, message(0x89, true, "now")...)
	frames = append(frames, message(0x00, true, "")...)
	frames = append(frames, message(0x80, true, "ag")...)
	frames = append(frames, message(0x8a, true, "")...)
	frames = append(frames, message(0x82, true, "")...)
	frames = append(frames, message(0x81, true, long)...)
	return frames, []string{"frag", "", long}
}

// Frames arrive byte by byte, and the shard moves at any byte. Each message reaches one app instance,
// complete and in order.
func TestWebSocketMovesAtEachByte(t *testing.T) {
	frames, want := parlance()
	step := 1
	if raceEnabled {
		step = 7
	}
	for at := 0; at <= len(frames); at += step {
		inSockets(t, plainChat, func(t *socketTest) {
			c := t.front.socket()
			for i := range frames {
				if i == at {
					t.propose()
					time.Sleep(100 * time.Millisecond) // until the app has received the bytes
				}
				c.send("%s", frames[i:i+1])
				if i%9 == 0 {
					time.Sleep(time.Millisecond)
				}
			}
			if at == len(frames) {
				t.propose()
			}
			t.until("the old owner is done", func() bool { return t.a.running.Load() == 0 })
			t.own(t.b)
			t.until("got", t.app.has(len(want)))
			t.app.wantGot(want...)
			t.until("a second leg", func() bool { return len(t.app.upgradeRequests()) == 2 })
			if h := t.app.upgradeRequests()[1]; h.Get("Shardway-WebSocket-Gap") != "" || t.app.most != 1 {
				t.Errorf("at %d: %v, %d legs at once", at, h, t.app.most)
			}
			_ = c.Close()
		})
	}
}

// A client that disconnects at any byte ends the WebSocket. The app gets all complete messages, and
// then the end.
func TestClientEndsAtEachByte(t *testing.T) {
	frames, want := parlance()
	step := 1
	if raceEnabled {
		step = 7
	}
	for at := 0; at <= len(frames); at += step {
		inSockets(t, plainChat, func(t *socketTest) {
			c := t.front.socket()
			c.send("%s", frames[:at])
			_ = c.Close()
			t.until("released", func() bool { return t.a.running.Load() == 0 })
			t.app.mu.Lock()
			got, legs := len(t.app.got), len(t.app.heads)
			t.app.mu.Unlock()
			if legs != 1 || got > len(want) || at == len(frames) && got != len(want) {
				t.Errorf("at %d: %d messages, %d legs", at, got, legs)
			}
			t.app.wantGot(want[:got]...)
		})
	}
}

// A message of 16 MiB that is in flight when its shard moves reaches the other end exactly once, in
// either direction. The move waits for it.
func TestLongMessagesAreHandedOver(t *testing.T) {
	const size = 16 << 20
	long := strings.Repeat("0123456789abcdef", size/16)
	for _, up := range []bool{true, false} {
		t.Run(fmt.Sprint("up=", up), func(t *testing.T) {
			app := &chat{t: t}
			first := webSocketApp(t, app)
			second := webSocketApp(t, app)
			a, b := newNode(t, "a", first), newNode(t, "b", second)
			front := newNode(t, "front", "")
			for _, n := range []*node{a, b, front} {
				n.knows("a", a)
				n.knows("b", b)
			}
			b.swap(1, 1, remote("a", 1))
			front.swap(1, 1, remote("a", 1))
			c := front.socket()
			frame := message(0x81, up, long)
			conn := net.Conn(c)
			if !up {
				conn = app.conn(0)
			}
			if up {
				if _, err := conn.Write(frame[:size/4]); err != nil {
					t.Fatal(err)
				}
				frame = frame[size/4:]
			}
			wrote := make(chan error, 1)
			go func() { // otherwise the app might send its Close reply inside its own message
				_, err := conn.Write(frame)
				wrote <- err
			}()
			if !up { // the message is in flight
				if _, err := c.r.Peek(1); err != nil {
					t.Fatal(err)
				}
			}
			for _, n := range []*node{a, b, front} {
				n.swap(1, 2, held(route.ReasonMoving))
			}
			if !up {
				if got := c.receiveText(); got != long {
					t.Errorf("%d bytes came, not as they were sent", len(got))
				}
			}
			if err := <-wrote; err != nil {
				t.Fatal(err)
			}
			until(t, "the old owner is done", func() bool { return a.running.Load() == 0 })
			a.swap(2, 2, remote("b", 2))
			b.swap(2, 2, local(2))
			front.swap(2, 2, remote("b", 2))
			until(t, "a second leg", func() bool { return len(app.upgradeRequests()) == 2 })
			if up {
				app.wantGot(long)
			}
			if h := app.upgradeRequests()[1]; h.Get("Shardway-WebSocket-Gap") != "" {
				t.Errorf("a completed hand-over has a gap: %v", h)
			}
			_ = c.Close()
		})
	}
}

// webSocketApp starts a chat on loopback and returns its address.
func webSocketApp(t *testing.T, app *chat) string {
	t.Helper()
	return rawApp(t, app.serve)
}

// A shard may move again before the next app instance has answered a resumption. The WebSocket follows
// the shard, and the unanswered attempt counts, because it may have reached an app.
func TestWebSocketMovesDuringResumption(t *testing.T) {
	inSockets(t, func() *chat {
		return &chat{answer: func(n int, _ http.Header) string {
			if n == 1 {
				return "silence"
			}
			return ""
		}}
	}, func(t *socketTest) {
		c := t.front.socket()
		c.sendText("one")
		t.until("got", t.app.has(1))
		t.move(t.a, t.b)
		t.until("the next app is asked", func() bool { return len(t.app.upgradeRequests()) == 2 })
		t.propose()
		time.Sleep(time.Second)
		t.b.CancelShards(allShards, "draining")
		t.until("the second owner is done", func() bool { return t.b.running.Load() == 0 })
		t.own(t.a)
		c.sendText("two")
		t.until("got", t.app.has(2))
		t.app.wantGot("one", "two")
		if h := t.app.upgradeRequests()[2]; h.Get("Shardway-WebSocket-Resumed") != "2" || h.Get("Shardway-WebSocket-Gap") != "1" || len(t.app.upgradeRequests()) != 3 {
			t.Errorf("%v, %d legs", h, len(t.app.upgradeRequests()))
		}
		_ = c.Close()
	})
}

// A paused owner does not hold up the client: the WebSocket resumes elsewhere. Data that the owner
// sends after its pause reaches no end twice.
func TestWebSocketSurvivesPausedOwner(t *testing.T) {
	inSockets(t, plainChat, func(t *socketTest) {
		if t.local {
			return // otherwise the client's node would be paused
		}
		c := t.front.socket()
		c.sendText("one")
		t.until("got", t.app.has(1))
		t.a.host.Freeze()
		time.Sleep(time.Second)
		t.orphan()
		t.front.CancelForwarded(func(_ shardOf, node string) bool { return node == "a" })
		t.own(t.b)
		time.Sleep(10 * time.Millisecond) // data that is sent earlier may be lost
		c.sendText("two")
		t.until("got", t.app.has(2))
		t.a.host.Thaw()
		t.a.CancelUpstream("lapsed")
		t.until("released", func() bool { return t.a.running.Load() == 0 })
		_, _ = t.app.conn(1).Write(message(0x81, false, "last"))
		if got := c.receiveText(); got != "last" {
			t.Errorf("the client got %q", got)
		}
		t.app.wantGot("one", "two")
		if h := t.app.upgradeRequests()[1]; h.Get("Shardway-WebSocket-Gap") != "1" {
			t.Errorf("%v", h)
		}
		_ = c.Close()
	})
}

// Each attempt that may have reached an app has its own number. An attempt that breaks before its
// response is not repeated with the same number.
func TestEachAttemptHasItsNumber(t *testing.T) {
	inSockets(t, func() *chat {
		return &chat{answer: func(n int, _ http.Header) string {
			if n == 1 || n == 2 {
				return "HTTP/" // and closes the connection
			}
			return ""
		}}
	}, func(t *socketTest) {
		c := t.front.socket()
		t.move(t.a, t.b)
		c.sendText("x")
		t.until("got", t.app.has(1))
		for i, h := range t.app.upgradeRequests() {
			number, gap := strconv.Itoa(i), "1"
			if i == 0 {
				number = ""
			}
			if i < 2 {
				gap = ""
			}
			if h.Get("Shardway-WebSocket-Resumed") != number || h.Get("Shardway-WebSocket-Gap") != gap {
				t.Errorf("attempt %d: %v", i, h)
			}
		}
		_ = c.Close()
	})
}

// Messages that the app sends before its Close reply reach the client, but the reply itself does not.
// The handover does not wait for a grace period.
func TestLastMessagesOfAppReachClient(t *testing.T) {
	inSockets(t, func() *chat {
		return &chat{goodbye: func(conn net.Conn, code int) bool {
			_, _ = conn.Write(message(0x81, false, fmt.Sprint("farewell ", code)))
			return false
		}}
	}, func(t *socketTest) {
		c := t.front.socket()
		began := time.Now()
		t.move(t.a, t.b)
		if took := time.Since(began); took > 200*time.Millisecond {
			t.Errorf("the move took %v", took)
		}
		if got := c.receiveText(); got != "farewell 1012" {
			t.Errorf("the client got %q", got)
		}
		t.until("a second leg", func() bool { return len(t.app.upgradeRequests()) == 2 })
		_, _ = t.app.conn(1).Write(message(0x81, false, "next"))
		if got := c.receiveText(); got != "next" {
			t.Errorf("the client got %q", got)
		}
		_ = c.Close()
	})
}

// After its 101, the client sees frames only. Interim responses of a later app instance are hidden.
func TestLater101ResponsesAreHiddenFromClient(t *testing.T) {
	inSockets(t, func() *chat {
		return &chat{answer: func(n int, _ http.Header) string {
			if n == 0 {
				return ""
			}
			return "HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\nHTTP/1.1 401 Unauthorized\r\nContent-Length: 2\r\n\r\nno"
		}}
	}, func(t *socketTest) {
		c := t.front.socket()
		t.move(t.a, t.b)
		op, p, err := readMessage(c.r)
		if err != nil || op != wsframe.OpClose || !strings.HasPrefix(string(p), "\x03\xf0") {
			t.Errorf("%x %q %v", op, p, err)
		}
		if rest, _ := io.ReadAll(c.r); len(rest) > 0 {
			t.Errorf("%q came behind that", rest)
		}
	})
}

// WebSockets are not counted as requests. They use no upstream connection and no queue place that
// requests of their shard need.
func TestWebSocketsTakeNoQueuePlacesFromRequests(t *testing.T) {
	inSockets(t, plainChat, func(t *socketTest) {
		var all []*client
		for range 3 {
			all = append(all, t.front.socket())
		}
		if n := len(t.app.upgradeRequests()); n != 3 {
			t.Errorf("%d legs", n)
		}
		for _, c := range all {
			_ = c.Close()
		}
	}, func(o *proxy.Options) { o.MaxUpstreamConns, o.MaxShardConns, o.MaxShardInflight = 1, 1, 1 })
}

// A protocol violation of either end closes both ends.
func TestProtocolViolationClosesBothEnds(t *testing.T) {
	for name, say := range map[string]func(t *socketTest, c *client){
		"client":                     func(_ *socketTest, c *client) { c.send("%s", message(0xc1, true, "x")) },
		"not masked":                 func(_ *socketTest, c *client) { c.send("%s", message(0x81, false, "x")) },
		"a ping in parts":            func(_ *socketTest, c *client) { c.send("%s", message(0x09, true, "x")) },
		"a long ping":                func(_ *socketTest, c *client) { c.send("%s", message(0x89, true, strings.Repeat("x", 126))) },
		"a length in too many bytes": func(_ *socketTest, c *client) { c.send("%s", "\x81\xfe\x00\x01\x00\x00\x00\x00x") },
		"a length of 64 bits": func(_ *socketTest, c *client) {
			c.send("%s", "\x81\xff\x80\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00")
		},
		"goes on with nothing": func(_ *socketTest, c *client) { c.send("%s", message(0x80, true, "x")) },
		"a message in a message": func(_ *socketTest, c *client) {
			c.send("%s", append(message(0x01, true, "x"), message(0x81, true, "y")...))
		},
		"a bad code":         func(_ *socketTest, c *client) { c.send("%s", message(0x88, true, "\x03\xed")) },
		"a code of one byte": func(_ *socketTest, c *client) { c.send("%s", message(0x88, true, "\x03")) },
		"app":                func(t *socketTest, _ *client) { _, _ = t.app.conn(0).Write(message(0x83, false, "x")) },
		"app, masked":        func(t *socketTest, _ *client) { _, _ = t.app.conn(0).Write(message(0x81, true, "x")) },
	} {
		t.Run(name, func(t *testing.T) {
			code := 0
			inSockets(t, func() *chat {
				return &chat{goodbye: func(_ net.Conn, c int) bool { code = c; return false }}
			}, func(t *socketTest) {
				c := t.front.socket()
				c.sendText("one")
				t.until("got", t.app.has(1))
				say(t, c)
				c.wantClosed(1002)
				t.until("released", func() bool { return t.a.running.Load() == 0 })
				if code != 1002 {
					t.Errorf("the app was told %d", code)
				}
				code = 0
				_ = c.Close()
			})
		})
	}
}

// A gap is reported once. After a planned move, the next upstream connection has no gap.
func TestWebSocketMovesAfterBreak(t *testing.T) {
	inSockets(t, plainChat, func(t *socketTest) {
		c := t.front.socket()
		c.sendText("one")
		t.until("got", t.app.has(1))
		t.orphan()
		t.a.CancelUpstream("lapsed")
		time.Sleep(10 * time.Millisecond)
		t.own(t.b)
		c.sendText("two")
		t.until("got", t.app.has(2))
		t.move(t.b, t.a)
		c.sendText("three")
		t.until("got", t.app.has(3))
		t.app.wantGot("one", "two", "three")
		for i, gap := range []string{"", "1", ""} {
			if got := t.app.upgradeRequests()[i].Get("Shardway-WebSocket-Gap"); got != gap {
				t.Errorf("leg %d: gap %q, want %q", i, got, gap)
			}
		}
		_ = c.Close()
	})
}
