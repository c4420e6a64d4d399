package proxy_test

import (
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"shardway/proxy/wsframe"
)

// muteChat is a chat that answers no Close frame and does not close its connections.
func muteChat() *chat {
	return &chat{goodbye: func(conn net.Conn, _ int) bool {
		_, _ = io.Copy(io.Discard, conn)
		return true
	}}
}

// overAt fails the test unless the upstream connections exist until after, and are closed one second
// later.
func (w *socketTest) overAt(after time.Duration) {
	w.Helper()
	time.Sleep(after)
	synctest.Wait()
	if w.a.running.Load() != 1 || w.kept() != 1 {
		w.Errorf("%v after the Close: %d legs at the owner, %d kept sockets, want 1 and 1", after, w.a.running.Load(), w.kept())
	}
	time.Sleep(2 * time.Second)
	synctest.Wait()
	if w.a.running.Load() != 0 || w.kept() != 0 {
		w.Errorf("%v after the Close: %d legs at the owner, %d kept sockets, want none", after+2*time.Second, w.a.running.Load(), w.kept())
	}
}

// kept returns the number of resumable WebSockets at the client's node.
func (w *socketTest) kept() (n int) {
	for _, x := range w.front.WebSocketCounts() {
		n += x.Attached + x.Detached
	}
	return n
}

// An app has ten seconds to answer a client's Close frame. A client may send its Close frame and
// leave. Once, no goroutine read from the client while the app did not answer, and the WebSocket
// stayed for idle-timeout, which is a minute or more.
func TestAppHasTenSecondsForCloseReply(t *testing.T) {
	for _, stays := range []bool{true, false} {
		inSockets(t, muteChat, func(t *socketTest) {
			c := t.front.socket()
			c.sendText("one")
			t.until("got", t.app.has(1))
			c.send("%s", message(0x88, true, "\x0f\xa0"))
			if !stays {
				_ = c.Close()
			}
			t.overAt(9 * time.Second)
			if stays {
				c.wantClosed(4000)
				_ = c.Close()
			}
		})
	}
}

// The app may send messages before its Close reply, even for longer than ten seconds. A client that
// has closed its sending side after its Close frame gets all of them. The total time is limited
// nevertheless.
func TestAppMaySendBeforeCloseReply(t *testing.T) {
	for _, words := range []int{4, 40} {
		inSockets(t, func() *chat {
			return &chat{goodbye: func(conn net.Conn, _ int) bool {
				for range words {
					time.Sleep(7 * time.Second)
					if _, err := conn.Write(message(0x81, false, "more")); err != nil {
						return true
					}
				}
				return false
			}}
		}, func(t *socketTest) {
			c := t.front.socket()
			c.sendText("one")
			t.until("got", t.app.has(1))
			c.send("%s", message(0x88, true, "\x0f\xa0"))
			if half, ok := c.Conn.(interface{ CloseWrite() error }); !ok || half.CloseWrite() != nil {
				t.Fatal("no half of the connection ends")
			}
			began := time.Now()
			for range min(words, 10) {
				if got := c.receiveText(); got != "more" {
					t.Errorf("got %q", got)
				}
			}
			c.wantClosed(4000)
			if took := time.Since(began); took > 76*time.Second {
				t.Errorf("closed after %v", took)
			}
			_ = c.Close()
			time.Sleep(20 * time.Second) // until the app detects the end
		})
	}
}

// An app that waits for a slow client sends nothing, but does not count as silent. In this case the
// client's timeout applies.
func TestAppIsNotSilentWhileItsClientReadsSlowly(t *testing.T) {
	const size, many = 60_000, 200
	inSockets(t, func() *chat {
		return &chat{goodbye: func(conn net.Conn, _ int) bool {
			for range many {
				if _, err := conn.Write(message(0x82, false, string(make([]byte, size)))); err != nil {
					return true
				}
			}
			return false
		}}
	}, func(t *socketTest) {
		c := t.front.socket()
		c.sendText("one")
		t.until("got", t.app.has(1))
		c.send("%s", message(0x88, true, "\x0f\xa0"))
		time.Sleep(30 * time.Second)
		_ = c.SetReadDeadline(time.Now().Add(time.Minute))
		for n := range many {
			if op, p, err := readMessage(c.r); op != wsframe.OpBinary || len(p) != size || err != nil {
				t.Fatalf("message %d: %x, %d bytes, %v", n, op, len(p), err)
			}
		}
		c.wantClosed(4000)
		_ = c.Close()
	})
}

// A client that does not answer the app's Close frame does not keep the WebSocket, whether it is
// silent or keeps sending. Messages that it sends within its timeout reach the app.
func TestClientHasTenSecondsForCloseReply(t *testing.T) {
	inSockets(t, plainChat, func(t *socketTest) {
		c := t.front.socket()
		c.sendText("one")
		t.until("got", t.app.has(1))
		_, _ = t.app.conn(0).Write(message(0x88, false, "\x0f\xa0"))
		t.overAt(9 * time.Second)
		c.wantClosed(4000)
		_ = c.Close()
	})
	inSockets(t, plainChat, func(t *socketTest) {
		c := t.front.socket()
		_, _ = t.app.conn(0).Write(message(0x88, false, "\x0f\xa0"))
		for n := range 9 {
			time.Sleep(7 * time.Second)
			c.sendText("more")
			t.until("got", t.app.has(n+1))
		}
		time.Sleep(7 * time.Second)
		_, _ = c.Write(message(0x81, true, "more"))
		t.overAt(4 * time.Second)
		_ = c.Close()
	})
}
