package proxy_test

import (
	"net/http"
	"testing"
	"time"

	"shardway/proxy"
)

// A resumable WebSocket without an upstream connection when its key is quarantined is closed as soon
// as its shard has an owner. It does not reach the app.
func TestQuarantineClosesDetachedWebSockets(t *testing.T) {
	inSockets(t, plainChat, func(t *socketTest) {
		c := t.front.socket()
		c.sendText("one")
		t.until("got", t.app.has(1))
		t.propose()
		t.until("the old owner is done", func() bool { return t.a.running.Load() == 0 })
		t.front.Quarantine(quarantineOf(shards, "", "k"))
		t.own(t.b)
		began := time.Now()
		c.wantClosedFor(1013, "the key is in quarantine")
		if took := time.Since(began); took > time.Second {
			t.Errorf("closed after %v", took)
		}
		if n := len(t.app.upgradeRequests()); n != 1 {
			t.Errorf("%d legs", n)
		}
		_ = c.Close()
	})
}

// A resumable WebSocket with an upstream connection continues when its key is quarantined, and is
// closed when its shard moves. After the quarantine is lifted, its client connects again.
func TestQuarantineClosesMovingWebSocket(t *testing.T) {
	inSockets(t, plainChat, func(t *socketTest) {
		c := t.front.socket()
		t.front.Quarantine(quarantineOf(shards, "", "k"))
		c.sendText("one")
		t.until("got", t.app.has(1))
		t.move(t.a, t.b)
		c.wantClosedFor(1013, "the key is in quarantine")
		_ = c.Close()
		t.front.Quarantine(nil)
		again := t.front.socket()
		again.sendText("two")
		t.until("got", t.app.has(2))
		_ = again.Close()
	})
}

// While the next owner has no room for the connection of a resumable WebSocket, it is asked at most
// every 200 ms. The WebSocket resumes as soon as there is room.
func TestWebSocketsBackOffFromFullOwner(t *testing.T) {
	plainFirst := func() *chat {
		return &chat{answer: func(n int, head http.Header) string {
			if n > 0 {
				return ""
			}
			return "Sec-WebSocket-Accept: x\r\n" // not resumable
		}}
	}
	inSockets(t, plainFirst, func(t *socketTest) {
		t.own(t.b)
		full := t.b.socket() // uses the only place of b
		t.own(t.a)
		c := t.front.socket()
		c.sendText("one")
		t.until("got", t.app.has(1))
		t.move(t.a, t.b)
		time.Sleep(10 * time.Second)
		if n := len(t.app.upgradeRequests()); n != 2 {
			t.Fatalf("%d legs", n)
		}
		asked := metric(t.T, t.b, "shardway_errors_total", "upstream-busy")
		if asked == 0 || asked > 70 {
			t.Errorf("b was asked %v times in 10 s", asked)
		}
		_ = full.Close()
		c.sendText("two")
		t.until("got", t.app.has(2))
		_ = c.Close()
	}, func(o *proxy.Options) {
		if o.Node == "b" {
			o.MaxStreams = 1
		}
	})
}
