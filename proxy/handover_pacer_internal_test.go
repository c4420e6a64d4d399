package proxy

import (
	"testing"
	"testing/synctest"
	"time"
)

// The shards that move wait for the last leg, however many there are, and however late the
// node is, and no more of them at once than that takes.
func TestAllRelaysAreHandedOverInTime(t *testing.T) {
	for _, many := range []int{1, 100, 8_000, 100_000} {
		synctest.Test(t, func(t *testing.T) {
			const late = 30 * time.Millisecond
			var h handoverPacer
			h.queue = make([]*webSocketRelay, many)
			h.began, h.n = time.Now(), firstHandovers
			began, asked := h.began, 0
			for due, more := began, true; more; due = time.Now().Add(handoversEvery) {
				time.Sleep(time.Until(due) + late)
				var turn []*webSocketRelay
				turn, more = h.take(late, time.Now())
				if asked += len(turn); len(turn) > mostHandovers+many/8 {
					t.Errorf("%d of %d legs were asked at once", len(turn), many)
				}
			}
			if took := time.Since(began); asked != many || took > moveAfter {
				t.Errorf("%d of %d legs were asked within %v, want all within %v", asked, many, took, moveAfter)
			}
		})
	}
}

// Who is to hand over right after the last of others waits for the next turn.
func TestHandoversKeepTheirOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &handoverPacer{late: func(time.Time) time.Duration { return 0 }, asking: true} // whose turns are below
		for i, test := range []struct {
			come, taken int
			more        bool
		}{{20, 20, true}, {9, 9, true}, {0, 0, false}} {
			for range test.come {
				h.ask(new(webSocketRelay))
			}
			if turn, more := h.take(0, time.Now()); len(turn) != test.taken || more != test.more {
				t.Errorf("turn %d: %d are asked, and there is another one: %v; want %d, %v", i, len(turn), more, test.taken, test.more)
			}
		}
		if h.asking {
			t.Error("nobody is to be asked, and somebody comes")
		}
	})
}
