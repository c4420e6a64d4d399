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

// parlance is what a client says in TestWebSocketMovesAtEachByte: fragments, pings inside and
// outside messages, an empty message, all lengths of heads but the longest.
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

// Frames that come byte by byte, and a move at any of them: each message reaches one app,
// whole and in order.
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
					time.Sleep(100 * time.Millisecond) // until that has been seen
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

// A client that ends its connection at any byte ends the socket: the app gets what was
// whole, and the end.
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

// A message of 16 MiB, either way, that is under way when its shard moves reaches the other
// end, once: the move waits for it.
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
			go func() { // of the app's in one, or it might answer our Close inside its message
				_, err := conn.Write(frame)
				wrote <- err
			}()
			if !up { // it is under way
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

// webSocketApp starts a chat on loopback.
func webSocketApp(t *testing.T, app *chat) string {
	t.Helper()
	return rawApp(t, app.serve)
}

// A shard that moves again while the next app has not answered takes the socket along: that
// attempt may have reached an app, and counts.
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

// An owner that stands still keeps no client: the socket goes on elsewhere, and what the
// owner wakes up with reaches nobody twice.
func TestWebSocketSurvivesPausedOwner(t *testing.T) {
	inSockets(t, plainChat, func(t *socketTest) {
		if t.local {
			return // then the client's node stands still
		}
		c := t.front.socket()
		c.sendText("one")
		t.until("got", t.app.has(1))
		t.a.host.Freeze()
		time.Sleep(time.Second)
		t.orphan()
		t.front.CancelForwarded(func(_ shardOf, node string) bool { return node == "a" })
		t.own(t.b)
		time.Sleep(10 * time.Millisecond) // what is sent before that may be missing
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

// Each attempt that may have reached an app has a number of its own: one that breaks off
// before it answers is not asked twice with the same.
func TestEachAttemptHasItsNumber(t *testing.T) {
	inSockets(t, func() *chat {
		return &chat{answer: func(n int, _ http.Header) string {
			if n == 1 || n == 2 {
				return "HTTP/" // and the end
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

// What the app sends before it answers our Close reaches the client, and nothing of the
// answer does. The hand-over takes no grace.
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

// Once it has its 101 a client sees frames only, whatever a later app says before its
// answer.
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

// Sockets are no requests: they keep no connection to the app, and no place in its shard,
// from those.
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

// Who breaks the protocol ends the socket for both.
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

// A gap is told once: the leg behind the one that was told of it, after a planned move, has
// none.
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
