package queue

import (
	"testing"
	"testing/synctest"
	"time"
)

// A steady ramp awakens as many in a second where timers are late as where they are not, but
// not more than some at once.
func TestLateTimerDoesNotSlowASteadyRamp(t *testing.T) {
	for late, want := range map[time.Duration]uint64{0: 8, 2 * time.Millisecond: 10, 12 * time.Millisecond: 24, time.Hour: 4 + maxBurst} {
		synctest.Test(t, func(t *testing.T) {
			r := New(Options{Requests: 1000, Bytes: 1 << 20, Wait: time.Minute, Batch: 4, Pace: 3 * time.Millisecond, FixedRate: true})
			for range 500 {
				r.pacer.due.push(&Ticket{ready: make(chan struct{}, 1)})
			}
			r.mu.Lock()
			r.releaseLocked()
			r.pacer.lastCheck = r.pacer.lastCheck.Add(-late)
			r.mu.Unlock()
			time.Sleep(3 * time.Millisecond)
			synctest.Wait()
			if n := r.Stats().Released; n != want {
				t.Errorf("with a timer late by %v %d are awakened, want %d", late, n, want)
			}
			time.Sleep(3 * time.Millisecond)
			synctest.Wait()
			if n := r.Stats().Released; n != want+4 {
				t.Errorf("and %d by the next one, want 4 more", n-want)
			}
			r.mu.Lock()
			r.pacer.due = list{}
			r.mu.Unlock()
		})
	}
}

// What a steady ramp was late by is not made up for by the next one, and a batch that is larger
// than what goes at once then goes as it is.
func TestASteadyRampBeginsWithABatch(t *testing.T) {
	for _, batch := range []int{4, maxBurst + 10} {
		synctest.Test(t, func(t *testing.T) {
			const pace = 3 * time.Millisecond
			r := New(Options{Batch: batch, Pace: pace, Wait: time.Minute, FixedRate: true})
			due := func(n int) {
				r.mu.Lock()
				defer r.mu.Unlock()
				for range n {
					r.pacer.due.push(&Ticket{ready: make(chan struct{}, 1)})
				}
				r.releaseLocked()
			}
			due(batch + 1)
			r.mu.Lock()
			r.pacer.lastCheck = r.pacer.lastCheck.Add(-time.Hour)
			r.mu.Unlock()
			time.Sleep(2 * pace) // the last one goes by a timer that is late, and then nobody is due
			synctest.Wait()
			before := r.Stats()
			if due(3 * batch); before.Due != 0 {
				t.Fatalf("%d are due still", before.Due)
			}
			for i := range 3 {
				if got, want := r.Stats().Released-before.Released, uint64((i+1)*batch); got != want {
					t.Errorf("batches of %d: %d awakened after %v, want %d", batch, got, time.Duration(i)*pace, want)
				}
				time.Sleep(pace)
				synctest.Wait()
			}
		})
	}
}
