package proxy_test

import (
	"net"
	"sync"
	"testing"
	"time"

	"shardway/internal/raceflag"
	"shardway/internal/simnet"
)

// WebSockets are handed over in batches. Once, thousands of handovers that were requested together
// delayed every request.
func TestRelaysAreHandedOverInBatches(t *testing.T) {
	for _, late := range []bool{false, true} {
		var mu sync.Mutex
		var told map[time.Time]int
		inSockets(t, func() *chat {
			told = make(map[time.Time]int)
			return &chat{goodbye: func(net.Conn, int) bool {
				mu.Lock()
				defer mu.Unlock()
				told[time.Now().Truncate(time.Millisecond)]++
				return false
			}}
		}, func(t *socketTest) {
			many := raceflag.Share(500, 150)
			all := t.front.sockets(many)
			most := 64
			if lateFor(0, t.front); late {
				lateFor(time.Hour, t.front)
				most = 16
			}
			began := time.Now()
			t.move(t.a, t.b)
			if took := time.Since(began); took > time.Second {
				t.Errorf("the old owner was done with them after %v, want one second at most", took)
			}
			n := 0
			for at, those := range told {
				if n += those; those > most {
					t.Errorf("%d legs were handed over at once after %v, want %d at most; late: %v", those, at.Sub(began), most, late)
				}
			}
			if n != many {
				t.Errorf("%d legs were handed over, want %d", n, many)
			}
			t.wantOn(all)
		})
	}
}

// WebSockets that wait for a table are released in batches. Once, all of them continued when it
// arrived, 64 before each request.
func TestWaitingWebSocketsAreReleasedInBatches(t *testing.T) {
	inSockets(t, plainChat, func(t *socketTest) {
		if t.local {
			return // the app accepts them at once, so none waits
		}
		const many = 300
		all := t.front.sockets(many)
		lateFor(0, t.front)
		t.sim.SetLink(t.front.id, t.b.id, simnet.Link{Latency: 20 * time.Millisecond})
		t.propose()
		t.until("all wait", func() bool { return t.front.WebSocketsQueued() == many })
		t.own(t.b)
		began, most, last := time.Now(), 0, 0
		t.until("all have gone on", func() bool {
			n := t.front.WebSocketsReleased()
			most, last = max(most, n-last), n
			return n >= many
		})
		if most > 16 {
			t.Errorf("%d went on within a millisecond, want some 4", most)
		}
		if took := time.Since(began); took > time.Second/2 {
			t.Errorf("%d went on within %v, want a thousand in a second at least", many, took)
		}
		t.wantOn(all)
	})
}
