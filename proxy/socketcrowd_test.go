package proxy_test

import (
	"net/http"
	"sync/atomic"
	"testing"
	"time"
)

// An app that turns sockets away on their way back is done with them: the next ones may
// ask at once, at the node that has the app and at others, until all have their answer.
func TestSocketsThatAreTurnedAwayMakeRoom(t *testing.T) {
	var now, most atomic.Int32
	inSockets(t, func() *chat {
		most.Store(0)
		return &chat{answer: func(_ int, head http.Header) string {
			if head.Get("Shardway-Socket-Resumed") == "" {
				return ""
			}
			if n := now.Add(1); n > most.Load() {
				most.Store(n)
			}
			time.Sleep(5 * time.Millisecond)
			now.Add(-1)
			return "HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n"
		}}
	}, func(t *socketTest) {
		var all []*client
		many := 200
		if raceEnabled {
			many = 40
		}
		for range many {
			all = append(all, t.front.socket(), t.b.socket())
		}
		t.move(t.a, t.b)
		for _, c := range all {
			c.wantClosed(1008) // 1012 for one that has waited in vain
			_ = c.Close()
		}
		if n := most.Load(); n > 64 {
			t.Errorf("%d sockets were on their way back at once, want 64 at most", n)
		}
	})
}
