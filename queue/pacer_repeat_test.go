package queue_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"shardway/queue"
)

// A change of the map comes with two tables within some ten milliseconds: by the first, which
// proposes it, everybody who waits looks and waits on, and the second has an owner for them all.
// The looks took little of the processors, so the ramp widened meanwhile, and the second table
// let hundreds go at once.
func TestLooksInVainDoNotWidenTheRamp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const all, batch = 400, 2
		r := queue.New(queue.Options{Batch: batch, Wait: hour})
		var table atomic.Uint64
		var went atomic.Int64
		end := make(chan struct{})
		for i := range all {
			tk := enter(t, r, uint32(i), 0)
			go func() {
				defer tk.Leave()
				for seen := uint64(0); ; {
					if tk.Wait(nil, seen, 0) != nil {
						return
					}
					time.Sleep(time.Millisecond) // the look
					if seen = table.Load(); seen == 2 {
						break
					}
				}
				tk.Dequeue()
				went.Add(1)
				<-end
			}()
		}
		synctest.Wait()
		change := func(generation uint64) { table.Store(generation); r.Wake(generation); synctest.Wait() }
		change(1)
		for r.Stats().Released < all-10 {
			time.Sleep(time.Millisecond)
		}
		change(2)
		time.Sleep(2 * time.Millisecond)
		synctest.Wait()
		if n := went.Load(); n != batch {
			t.Errorf("%d went on at once, want %d", n, batch)
		}
		time.Sleep(200 * time.Millisecond)
		if n := went.Load(); n != all {
			t.Errorf("%d of %d went on within 200 ms", n, all)
		}
		close(end)
	})
}

// The next release begins with a batch again, also when it comes in the moment in which
// the one before has let the last one go: it had as many away as that one in the end, at once.
func TestReleaseAfterReleaseBeginsWithABatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := queue.New(queue.Options{Batch: 2, Wait: hour})
		first := newCrowdAt(t, r, 200, 0)
		second := newCrowdAt(t, r, 200, 1)
		r.Wake(1)
		for r.Stats().Released < 200 {
			time.Sleep(time.Millisecond)
		}
		r.Wake(2)
		if n := r.Stats().Released - 200; n != 2 {
			t.Errorf("the second table awakens %d at once, want 2", n)
		}
		time.Sleep(100 * time.Millisecond)
		if n := r.Stats().Released - 200; n != 200 {
			t.Errorf("and %d within 100 ms, want all 200", n)
		}
		for _, tk := range append(first.tickets, second.tickets...) {
			tk.Leave()
		}
	})
}
