package proxy_test

import (
	"net/http"
	"sync"
	"testing"
	"time"

	"shardway/internal/simnet"
)

// tally records operations of an app that take a while, and how many of them run at the same time.
type tally struct {
	each time.Duration

	mu   sync.Mutex
	now  int
	seen []seenAt
}

type seenAt struct {
	at    time.Time
	among int
}

func (a *tally) pass() {
	a.mu.Lock()
	a.now++
	a.seen = append(a.seen, seenAt{time.Now(), a.now})
	a.mu.Unlock()
	time.Sleep(a.each)
	a.mu.Lock()
	a.now--
	a.mu.Unlock()
}

// between returns the number of operations that began between two times, and the maximum that ran at
// the same time. Times count from the first operation.
func (a *tally) between(from, to time.Duration) (n, most int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, s := range a.seen {
		if after := s.at.Sub(a.seen[0].at); after >= from && after < to {
			n++
			most = max(most, s.among)
		}
	}
	return n, most
}

// returns returns a chat that records each WebSocket that resumes, and needs a while for it.
func (a *tally) returns() *chat {
	return &chat{answer: func(_ int, head http.Header) string {
		if head.Get("Shardway-WebSocket-Resumed") != "" {
			a.pass()
		}
		return ""
	}}
}

// lateFor sets the scheduling delay of nodes to d.
func lateFor(d time.Duration, nodes ...*node) {
	end := time.Now().Add(d)
	for _, n := range nodes {
		n.SetSchedulingDelay(func() time.Duration {
			if time.Now().Before(end) {
				return 6 * time.Millisecond
			}
			return 0
		})
	}
}

// sockets opens many WebSockets.
func (n *node) sockets(many int) (all []*client) {
	for range many {
		all = append(all, n.socket())
	}
	return all
}

// wantOn fails the test unless all WebSockets resume. It returns how long that took.
func (w *socketTest) wantOn(all []*client) time.Duration {
	w.Helper()
	began := time.Now()
	for _, c := range all {
		c.sendText("on")
	}
	w.until("all go on", w.app.has(len(all)))
	took := time.Since(began)
	for _, c := range all {
		_ = c.Close()
	}
	time.Sleep(time.Minute) // until the app has closed them
	return took
}

// Dials for WebSockets compete with requests for the processor. A node with a high scheduling delay
// makes only a few at a time.
func TestLateIngressDialsForFewWebSockets(t *testing.T) {
	var a *tally
	inSockets(t, func() *chat { a = &tally{}; return a.returns() }, func(t *socketTest) {
		all := t.front.sockets(600)
		t.sim.SetLink(t.front.id, t.b.id, simnet.Link{Latency: 40 * time.Millisecond}) // 80 ms for each connection
		lateFor(2*time.Second, t.front)
		t.move(t.a, t.b)
		t.wantOn(all)
		if n, _ := a.between(0, 1500*time.Millisecond); n > 120 {
			t.Errorf("%d came back in 1.5 s, want some 60 in a second: all within half of ResumeTimeout", n)
		}
	})
}

// An ingress with a high scheduling delay resumes only a few WebSockets at a time. When the delay
// ends, the rate returns to normal.
func TestLateIngressResumesFewWebSockets(t *testing.T) {
	var a *tally
	inSockets(t, func() *chat { a = &tally{each: 80 * time.Millisecond}; return a.returns() }, func(t *socketTest) {
		const late, retry = 3 * time.Second, 1200 * time.Millisecond // retry: after a dial for which there was no place
		all := t.front.sockets(600)
		lateFor(late, t.front)
		t.move(t.a, t.b)
		t.wantOn(all)
		if n, most := a.between(retry, late-200*time.Millisecond); most > 24 || n < 30 || n > 130 {
			t.Errorf("%d, %d at once were brought back by a node that is late, want some 60 in a second", n, most)
		}
		if _, most := a.between(late, time.Hour); most < 32 {
			t.Errorf("%d at once were brought back by a node that is not late, want more", most)
		}
	})
}

// A node with a permanent scheduling delay resumes all WebSockets before their timeout.
func TestWebSocketsOfLateNodeResumeInTime(t *testing.T) {
	var a *tally
	inSockets(t, func() *chat { a = &tally{each: 400 * time.Millisecond}; return a.returns() }, func(t *socketTest) {
		all := t.front.sockets(540)
		lateFor(time.Hour, t.front)
		t.move(t.a, t.b)
		if took := t.wantOn(all); took > 20*time.Second {
			t.Errorf("%d sockets came back in %v, want less than ResumeTimeout", len(all), took)
		}
		if _, most := a.between(2*time.Second, 9*time.Second); most > 56 {
			t.Errorf("%d at once were brought back by a late node, want no more than it takes: some 20 in the end", most)
		}
	})
}

// A node that has not yet measured its scheduling delay begins with a few WebSockets.
func TestFirstWebSocketsResumeFewAtOnce(t *testing.T) {
	var a *tally
	inSockets(t, func() *chat { a = &tally{each: 80 * time.Millisecond}; return a.returns() }, func(t *socketTest) {
		all := t.front.sockets(200)
		lateFor(0, t.front)
		t.move(t.a, t.b)
		t.wantOn(all)
		if _, most := a.between(0, 80*time.Millisecond); most > 8 {
			t.Errorf("%d at once came back first, want 8", most)
		}
		if _, most := a.between(200*time.Millisecond, time.Hour); most < 60 {
			t.Errorf("%d at once came back later, want 64", most)
		}
	})
}

// An owner to which dials take longer than before also counts as delayed.
func TestFewWebSocketsResumeAtLateOwner(t *testing.T) {
	var a *tally
	inSockets(t, func() *chat { a = &tally{}; return a.returns() }, func(t *socketTest) {
		if t.local {
			return
		}
		all := t.front.sockets(600)
		lateFor(0, t.front)
		t.sim.SetLink(t.front.id, t.b.id, simnet.Link{Latency: 20 * time.Millisecond})
		t.move(t.a, t.b)
		t.until("some are back", func() bool { n, _ := a.between(0, time.Hour); return n >= 50 })
		t.sim.SetLink(t.front.id, t.b.id, simnet.Link{Latency: 200 * time.Millisecond}) // 400 ms for each connection
		t.wantOn(all)
		if n, _ := a.between(time.Second, 4*time.Second); n > 250 {
			t.Errorf("%d were brought back in 3 s by a node that is late, want 120 to 200; 64 at once are 480", n)
		}
	})
}
