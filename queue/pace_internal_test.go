package queue

import (
	"testing"
	"testing/synctest"
	"time"
)

// A steady ramp awakens as many in a second where timers are late as where they are not, but
// not more than some at once.
func TestLateTimerDoesNotSlowASteadyRamp(t *testing.T) {
	for late, want := range map[time.Duration]uint64{0: 8, 2 * time.Millisecond: 10, 12 * time.Millisecond: 24, time.Hour: 4 + mostMissed} {
		synctest.Test(t, func(t *testing.T) {
			r := New(Options{Requests: 1000, Bytes: 1 << 20, Wait: time.Minute, Batch: 4, Pace: 3 * time.Millisecond, Steady: true})
			for range 500 {
				r.ramp.due.push(&Ticket{ready: make(chan struct{}, 1)})
			}
			r.mu.Lock()
			r.release()
			r.ramp.since = r.ramp.since.Add(-late)
			r.mu.Unlock()
			time.Sleep(3 * time.Millisecond)
			synctest.Wait()
			if n := r.Stats().Awakened; n != want {
				t.Errorf("with a timer late by %v %d are awakened, want %d", late, n, want)
			}
			time.Sleep(3 * time.Millisecond)
			synctest.Wait()
			if n := r.Stats().Awakened; n != want+4 {
				t.Errorf("and %d by the next one, want 4 more", n-want)
			}
			r.mu.Lock()
			r.ramp.due = line{}
			r.mu.Unlock()
		})
	}
}
