package proxy_test

import (
	"sync/atomic"
	"testing"
	"time"

	"shardway/proxy"
)

// A WebSocket outlives the process of its key: after the end of the process, the session continues with the next one.
// A process that ends the connection without a Close frame and continues to run ends the WebSocket.
func TestWebSocketOutlivesProcessOfItsKey(t *testing.T) {
	var process atomic.Pointer[chan struct{}] // the channel is closed at the end of the process
	inSockets(t, plainChat, func(t *socketTest) {
		first, second := make(chan struct{}), make(chan struct{})
		process.Store(&first)
		c := t.front.socket()
		c.sendText("one")
		t.until("got", t.app.has(1))
		process.Store(&second)
		_ = t.app.conn(0).Close()
		time.Sleep(50 * time.Millisecond) // the node is notified of the end of a process after its connections have ended
		close(first)
		t.until("the next process has the WebSocket", func() bool { return len(t.app.upgradeRequests()) == 2 })
		c.sendText("two")
		t.until("got", t.app.has(2))
		t.app.wantGot("one", "two")
		if h := t.app.upgradeRequests()[1]; h.Get("Shardway-WebSocket-Gap") != "1" {
			t.Errorf("upgrade request to the next process: %v", h)
		}
		_ = t.app.conn(1).Close()
		c.wantClosed(0)
		if n := len(t.app.upgradeRequests()); n != 2 {
			t.Errorf("%d upgrade requests, want 2", n)
		}
		_ = c.Close()
	}, func(o *proxy.Options) {
		o.Processes = processPerKey{dial: o.DialUpstream, ended: func() <-chan struct{} { return *process.Load() }}
	})
}
