package proxy_test

import (
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"shardway/internal/simnet"
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
			c.wantClosedFor(1008, "the app did not take the socket") // 1012 for one that has waited in vain
			_ = c.Close()
		}
		if n := most.Load(); n > 64 {
			t.Errorf("%d sockets were on their way back at once, want 64 at most", n)
		}
	})
}

// Each socket takes the connection to the next owner that is made for it, so that those which
// wait are not served by the ones that come back, as requests are. With a dozen made at once
// thousands took longer than they have, where a handshake takes its time: on a busy machine, or
// on a long path.
func TestManySocketsMoveOverASlowPath(t *testing.T) {
	many := 600
	if raceEnabled {
		many = 150
	}
	inSockets(t, plainChat, func(t *socketTest) {
		if t.local {
			return
		}
		all := make([]*client, many)
		for i := range all {
			all[i] = t.front.socket()
		}
		t.sim.SetLink(t.front.id, t.b.id, simnet.Link{Latency: 15 * time.Millisecond}) // 30 ms for each connection
		t.move(t.a, t.b)
		began := time.Now()
		for _, c := range all {
			c.say("on")
		}
		t.until("all go on", t.app.has(many))
		if took := time.Since(began); took > time.Duration(many)*time.Millisecond {
			t.Errorf("%d sockets took %v", many, took)
		}
		for _, c := range all {
			_ = c.Close()
		}
	})
}
