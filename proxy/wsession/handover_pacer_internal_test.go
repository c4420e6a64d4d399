package wsession

import (
	"testing"
	"testing/synctest"
	"time"
)

// All hand-overs are requested in time, even if there are many or the node is late, and each step
// requests no more of them than necessary.
func TestAllRelaysAreHandedOverInTime(t *testing.T) {
	for _, many := range []int{1, 100, 8_000, 100_000} {
		synctest.Test(t, func(t *testing.T) {
			const late = 30 * time.Millisecond
			var h HandoverPacer
			h.requests = make([]func(), many)
			h.startedAt, h.stepLimit = time.Now(), minStepHandovers
			began, asked := h.startedAt, 0
			for due, more := began, true; more; due = time.Now().Add(handoverInterval) {
				time.Sleep(time.Until(due) + late)
				var batch []func()
				batch, more = h.nextStep(late, time.Now())
				if asked += len(batch); len(batch) > maxStepHandovers+many/8 {
					t.Errorf("one step requests %d of %d hand-overs", len(batch), many)
				}
			}
			if took := time.Since(began); asked != many || took > HandoverDelay {
				t.Errorf("%d of %d hand-overs were requested within %v, want all within %v", asked, many, took, HandoverDelay)
			}
		})
	}
}

// A relay that arrives right after the last one of the queue waits for the next step.
func TestHandoversKeepTheirOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &HandoverPacer{MeasureDelay: func(time.Time) time.Duration { return 0 }, scheduled: true}
		for i, test := range []struct {
			come, taken int
			more        bool
		}{{20, 20, true}, {9, 9, true}, {0, 0, false}} {
			for range test.come {
				h.Enqueue(func() {})
			}
			if batch, more := h.nextStep(0, time.Now()); len(batch) != test.taken || more != test.more {
				t.Errorf("step %d: %d hand-overs, more = %v; want %d, %v", i, len(batch), more, test.taken, test.more)
			}
		}
		if h.scheduled {
			t.Error("a step is scheduled for an empty queue")
		}
	})
}
