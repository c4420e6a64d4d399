package proxy_test

import (
	"testing"
	"time"
)

// A direction that is woken soon after it was parked waits longer before it is parked again. Parking
// is not worthwhile for a WebSocket with a message every few seconds.
func TestQuicklyWokenDirectionParksLater(t *testing.T) {
	overWebSocketStreams(t, plainChat, func(t *socketTest) {
		parked := func(after time.Duration, front, owner float64) {
			t.Helper()
			time.Sleep(after)
			const name = "shardway_idle_websocket_directions"
			if f, o := metric(t.T, t.front, name), metric(t.T, t.a, name); f != front || o != owner {
				t.Errorf("%v directions are parked at the client's node and %v at the owner, want %v and %v", f, o, front, owner)
			}
		}
		c := t.front.socket() // in a bubble, connections do not park, but streams do
		parked(500*time.Millisecond, 0, 0)
		parked(time.Second, 1, 1)
		for i := range 3 {
			c.sendText("on")
			t.until("it is carried", t.app.has(i+1))
			parked(5*time.Second, 1, 0)
		}
		parked(6*time.Second, 1, 1)
		time.Sleep(time.Minute)
		c.sendText("on")
		t.until("it is carried", t.app.has(4))
		parked(1500*time.Millisecond, 1, 1)
		_ = c.Close()
	})
}
