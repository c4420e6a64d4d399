package proxy

import (
	"testing"
	"testing/synctest"
	"time"
)

// The shards that move wait for the last leg, however many there are, and however late the
// node is, and no more of them at once than that takes.
func TestAllLegsAreHandedOverInTime(t *testing.T) {
	for _, many := range []int{1, 100, 8_000, 100_000} {
		synctest.Test(t, func(t *testing.T) {
			const late = 30 * time.Millisecond
			var h handovers
			h.queue = make([]*leg, many)
			h.began, h.n = time.Now(), firstHandovers
			began, asked := h.began, 0
			for due, more := began, true; more; due = time.Now().Add(handoversEvery) {
				time.Sleep(time.Until(due) + late)
				var turn []*leg
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
