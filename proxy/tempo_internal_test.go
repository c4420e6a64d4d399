package proxy

import (
	"testing"
	"testing/synctest"
	"time"
)

// Whether all will be back in time is asked of those that are away now. Of those before,
// which may have been away for longer than that, it says nothing.
func TestWaveBehindAnotherIsCountedOnItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		late := time.Duration(0)
		wave := tempo{patience: 500 * time.Millisecond, late: func(time.Time) time.Duration { return late }, grown: func() {}}
		wave.leaves()
		time.Sleep(50 * time.Millisecond)
		wave.arrives()
		time.Sleep(700 * time.Millisecond) // it is still looked how late the node is
		const many = 100
		for range many {
			wave.leaves()
		}
		time.Sleep(20 * time.Millisecond)
		for range many / 2 {
			wave.arrives()
		}
		before := wave.size()
		late = 3 * lateAfter
		time.Sleep(50 * time.Millisecond)
		if now := wave.size(); now > before/2 {
			t.Errorf("a node that is late, and in time with half of them back, brings %d back at once, and %d before, want fewer", now, before)
		}
		for range many / 2 {
			wave.arrives()
		}
		time.Sleep(2 * tempoQuiet) // nobody looks any more
	})
}
