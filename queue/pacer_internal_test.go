package queue

import (
	"testing"
	"testing/synctest"
	"time"

	"shardway/internal/linkedlist"
)

// A fixed rate releases as many tickets per second when timers are late as when they are on time, but
// never more than maxBurst at once.
func TestLateTimerDoesNotReduceFixedRate(t *testing.T) {
	for late, want := range map[time.Duration]uint64{0: 8, 2 * time.Millisecond: 10, 12 * time.Millisecond: 24, time.Hour: 4 + maxBurst} {
		synctest.Test(t, func(t *testing.T) {
			q := New(Options{Requests: 1000, Bytes: 1 << 20, Wait: time.Minute, Batch: 4, Pace: 3 * time.Millisecond, FixedRate: true})
			for range 500 {
				t := &Ticket{ready: make(chan struct{}, 1)}
				q.pacer.dueTickets.PushBack(&t.element, t)
			}
			q.mu.Lock()
			q.releaseLocked()
			q.pacer.lastCheck = q.pacer.lastCheck.Add(-late)
			q.mu.Unlock()
			time.Sleep(3 * time.Millisecond)
			synctest.Wait()
			if n := q.Stats().Released; n != want {
				t.Errorf("timer late by %v: %d released, want %d", late, n, want)
			}
			time.Sleep(3 * time.Millisecond)
			synctest.Wait()
			if n := q.Stats().Released; n != want+4 {
				t.Errorf("next timer: %d released, want 4", n-want)
			}
			q.mu.Lock()
			q.pacer.dueTickets = linkedlist.List[*Ticket]{}
			q.mu.Unlock()
		})
	}
}

// The additional tickets of a late timer belong to one batch and are not repeated in the next one. A
// batch that is larger than maxBurst is released whole.
func TestFixedRateStartsWithOneBatch(t *testing.T) {
	for _, batch := range []int{4, maxBurst + 10} {
		synctest.Test(t, func(t *testing.T) {
			const pace = 3 * time.Millisecond
			q := New(Options{Batch: batch, Pace: pace, Wait: time.Minute, FixedRate: true})
			push := func(n int) {
				q.mu.Lock()
				defer q.mu.Unlock()
				for range n {
					t := &Ticket{ready: make(chan struct{}, 1)}
					q.pacer.dueTickets.PushBack(&t.element, t)
				}
				q.releaseLocked()
			}
			push(batch + 1)
			q.mu.Lock()
			q.pacer.lastCheck = q.pacer.lastCheck.Add(-time.Hour)
			q.mu.Unlock()
			time.Sleep(2 * pace) // a late timer releases the last ticket, and then none is due
			synctest.Wait()
			before := q.Stats()
			if push(3 * batch); before.Due != 0 {
				t.Fatalf("Due = %d, want 0", before.Due)
			}
			for i := range 3 {
				if got, want := q.Stats().Released-before.Released, uint64((i+1)*batch); got != want {
					t.Errorf("batches of %d: %d released after %v, want %d", batch, got, time.Duration(i)*pace, want)
				}
				time.Sleep(pace)
				synctest.Wait()
			}
		})
	}
}
