package proxy_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"shardway/proxy"
	"shardway/proxy/wsframe"
)

// replayChat is an app that requests the replay of the client's first messages.
func replayChat(value string) func() *chat {
	return func() *chat {
		return &chat{answer: func(int, http.Header) string {
			return "Shardway-WebSocket: " + value + "\r\nSec-WebSocket-Accept: ICX+Yqv66kxgM0FcWaLWlFLwTAI=\r\n"
		}}
	}
}

// Each later upstream connection receives the first messages of the client before all others, also the
// fragments of a message. Control frames are not sent again.
func TestFirstMessagesAreReplayed(t *testing.T) {
	inSockets(t, replayChat("keep; replay=2"), func(t *socketTest) {
		c := t.front.socket()
		c.write(message(0x01, true, "o"), message(0x89, true, "ping"), message(0x80, true, "ne"), message(0x82, true, "two"))
		c.sendText("three")
		t.until("got", t.app.has(3))
		want := []string{"one", "two", "three"}
		for i := range 3 {
			owners := []*node{t.a, t.b}
			t.move(owners[i%2], owners[(i+1)%2])
			text := fmt.Sprint("after move ", i)
			c.sendText(text)
			want = append(want, "one", "two", text)
			t.until("got", t.app.has(len(want)))
		}
		t.app.wantGot(want...)
		_, _ = t.app.conn(3).Write(message(0x81, false, "end"))
		pongs := 0
		for {
			op, payload, err := readMessage(c.r)
			if err != nil {
				t.Fatal(err)
			}
			if op == wsframe.OpPong {
				pongs++
			}
			if string(payload) == "end" {
				break
			}
		}
		if pongs != 1 {
			t.Errorf("%d pongs for one ping", pongs)
		}
		_ = c.Close()
	})
}

// After a crash of the owner, the messages are sent, too. A message that was incomplete is not.
func TestReplayAfterGapSkipsIncompleteMessage(t *testing.T) {
	inSockets(t, replayChat("keep; replay=3"), func(t *socketTest) {
		c := t.front.socket()
		c.sendText("one")
		c.write(message(0x01, true, "tw"))
		t.until("got", t.app.has(1))
		time.Sleep(10 * time.Millisecond)
		t.orphan()
		_ = t.app.conn(0).Close()
		time.Sleep(10 * time.Millisecond)
		t.own(t.b)
		t.until("resumed", func() bool { return len(t.app.upgradeRequests()) == 2 })
		c.write(message(0x80, true, "o"))
		c.sendText("three")
		t.until("got", t.app.has(3))
		t.app.wantGot("one", "one", "three")
		t.move(t.b, t.a)
		c.sendText("four")
		t.until("got", t.app.has(6))
		c.sendText("five")
		t.until("got", t.app.has(7))
		t.app.wantGot("one", "one", "three", "one", "three", "four", "five")
		t.move(t.a, t.b)
		t.until("got", t.app.has(10))
		t.app.wantGot("one", "one", "three", "one", "three", "four", "five", "one", "three", "four")
		_ = c.Close()
	})
}

// The message from which the node has read the key is the first one.
func TestReplayContainsFirstMessageWithKey(t *testing.T) {
	for value, want := range map[string][]string{
		"keep; replay=1": {"tea", "two", "tea", "three"},
		"keep":           {"tea", "two", "three"},
	} {
		inSockets(t, replayChat(value), func(t *socketTest) {
			c, _ := t.front.acceptedSocket("")
			c.sendText("tea")
			c.sendText("two")
			t.until("got", t.app.has(2))
			t.move(t.a, t.b)
			c.sendText("three")
			t.until("got", t.app.has(len(want)))
			t.app.wantGot(want...)
			if n := len(t.app.upgradeRequests()); n != 2 {
				t.Errorf("%d upgrade requests", n)
			}
			_ = c.Close()
		}, keyedBy(t, "ws-first"))
	}
}

// If the first messages exceed 64 KiB together, the client must reconnect after a move. Until then the
// WebSocket continues.
func TestTooLongReplayEndsAtMove(t *testing.T) {
	for size, resumes := range map[int]bool{32 << 10: true, 33 << 10: false} {
		inSockets(t, replayChat("keep; replay=2"), func(t *socketTest) {
			c := t.front.socket()
			for range 3 {
				c.sendText(strings.Repeat("x", size))
			}
			t.until("got", t.app.has(3))
			t.move(t.a, t.b)
			if resumes {
				t.until("got", t.app.has(5))
			} else {
				c.wantClosedFor(1012, "the first messages are too long to be sent again")
			}
			_ = c.Close()
		})
	}
}

// All WebSockets of a node share the memory for their first messages. A WebSocket beyond the limit continues, but
// its client must reconnect after a move. The end of a WebSocket releases its memory.
func TestReplayMemoryIsLimited(t *testing.T) {
	const size, limit = 30 << 10, 100 << 10
	inSockets(t, replayChat("keep; replay=2"), func(t *socketTest) {
		used := func() float64 { return metric(t.T, t.front, "shardway_websocket_replay_bytes") }
		refused := func() float64 { return metric(t.T, t.front, "shardway_websocket_replays_refused_total") }
		first, second := t.front.socket(), t.front.socket()
		for _, c := range []*client{first, second} {
			c.sendText(strings.Repeat("x", size))
		}
		t.until("got", t.app.has(2))
		ofTwo := used()
		if ofTwo < 2*size || ofTwo > limit || refused() != 0 {
			t.Fatalf("%v bytes, %v refused", ofTwo, refused())
		}
		third := t.front.socket()
		for range 2 {
			third.sendText(strings.Repeat("x", size))
		}
		t.until("got", t.app.has(4))
		if used() != ofTwo || refused() != 1 {
			t.Fatalf("%v bytes, %v refused, want %v bytes", used(), refused(), ofTwo)
		}
		third.sendText("on") // it continues until it moves
		t.until("got", t.app.has(5))
		t.move(t.a, t.b)
		third.wantClosedFor(1012, "the node had no memory for the first messages")
		t.until("resumed", t.app.has(7))
		_, _ = first.Close(), third.Close()
		t.until("released", func() bool { return used() < limit/2 })
		fourth := t.front.socket()
		fourth.sendText(strings.Repeat("x", size))
		t.until("got", t.app.has(8))
		_, _ = second.Close(), fourth.Close()
		t.until("all is released", func() bool { return used() == 0 })
		if refused() != 1 {
			t.Errorf("%v refused", refused())
		}
	}, func(o *proxy.Options) { o.MaxReplayMemory = limit })
}

// A value that is not defined does not make a WebSocket resumable: the app expects something that the
// node does not do.
func TestUndefinedReplayIsNotResumable(t *testing.T) {
	for _, value := range []string{
		"keep; replay=0", "keep; replay=-1", "keep; replay=65", "keep; replay=01", "keep; replay=", "keep; replay=x", "keep;", "keep; replay=1; replay=2", "keep; other=1", "keeps", "keep replay=1", "kept; replay=1",
	} {
		inSockets(t, replayChat(value), func(t *socketTest) {
			c := t.front.socket()
			c.sendText("one")
			t.until("got", t.app.has(1))
			t.move(t.a, t.b)
			c.wantClosed(1012)
			_ = c.Close()
		})
	}
	for _, value := range []string{"keep;replay=1", "keep ;\treplay=64", "keep; replay=2"} {
		inSockets(t, replayChat(value), func(t *socketTest) {
			c := t.front.socket()
			c.sendText("one")
			t.until("got", t.app.has(1))
			t.move(t.a, t.b)
			t.until("got", t.app.has(2))
			t.app.wantGot("one", "one")
			_ = c.Close()
		})
	}
}
