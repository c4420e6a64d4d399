package queue_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"shardway/queue"
)

// A map change publishes two routing tables within some 10 ms. After the first one, which proposes
// the change, all requests check the table and wait again. The second one contains an owner for all
// of them. The checks cost little CPU time, so the limit used to grow in between, and the second
// table released hundreds of requests at once.
func TestReleasesWithoutOwnerDoNotRaiseTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const all, batch = 400, 2
		q := queue.New(queue.Options{Batch: batch, Wait: hour})
		var table atomic.Uint64
		var dequeued atomic.Int64
		end := make(chan struct{})
		for i := range all {
			tk := enter(t, q, uint32(i), 0)
			go func() {
				defer tk.Leave()
				for seen := uint64(0); ; {
					if tk.Wait(nil, seen, 0) != nil {
						return
					}
					time.Sleep(time.Millisecond) // checks the table
					if seen = table.Load(); seen == 2 {
						break
					}
				}
				tk.Dequeue()
				dequeued.Add(1)
				<-end
			}()
		}
		synctest.Wait()
		change := func(generation uint64) { table.Store(generation); q.Wake(generation); synctest.Wait() }
		change(1)
		for q.Stats().Released < all-10 {
			time.Sleep(time.Millisecond)
		}
		change(2)
		time.Sleep(2 * time.Millisecond)
		synctest.Wait()
		if n := dequeued.Load(); n != batch {
			t.Errorf("%d dequeued at once, want %d", n, batch)
		}
		time.Sleep(200 * time.Millisecond)
		if n := dequeued.Load(); n != all {
			t.Errorf("%d of %d dequeued within 200 ms", n, all)
		}
		close(end)
	})
}

// A release starts with one batch again, even at the moment at which the previous release has just
// released its last ticket. It used to start with the limit that the previous one had reached.
func TestEachReleaseStartsWithOneBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := queue.New(queue.Options{Batch: 2, Wait: hour})
		first := newWaitersWithGeneration(t, q, 200, 0)
		second := newWaitersWithGeneration(t, q, 200, 1)
		q.Wake(1)
		for q.Stats().Released < 200 {
			time.Sleep(time.Millisecond)
		}
		q.Wake(2)
		if n := q.Stats().Released - 200; n != 2 {
			t.Errorf("the second table releases %d at once, want 2", n)
		}
		time.Sleep(100 * time.Millisecond)
		if n := q.Stats().Released - 200; n != 200 {
			t.Errorf("the second table releases %d within 100 ms, want all 200", n)
		}
		for _, tk := range append(first.tickets, second.tickets...) {
			tk.Leave()
		}
	})
}
