package queue_test

import (
	"errors"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"shardway/queue"
)

// waiters is a group of waiting tickets in a known order.
type waiters struct {
	tickets  []*queue.Ticket
	mu       sync.Mutex
	returned []int // indexes of tickets whose Wait returned nil; unordered within one instant
}

// newWaiters returns n waiters that have checked the table of generation 0.
func newWaiters(t *testing.T, q *queue.Queue, n int) *waiters {
	t.Helper()
	return newWaitersWithGeneration(t, q, n, 0)
}

// newWaitersWithGeneration returns n waiters that have checked the table of generation seen.
func newWaitersWithGeneration(t *testing.T, q *queue.Queue, n int, seen uint64) *waiters {
	t.Helper()
	w := &waiters{}
	for i := range n {
		tk := enter(t, q, uint32(i), 0)
		w.tickets = append(w.tickets, tk)
		w.wait(i, seen)
		synctest.Wait() // makes the order deterministic
	}
	return w
}

func (w *waiters) wait(i int, seen uint64) {
	go func() {
		if w.tickets[i].Wait(nil, seen, 0) == nil {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.returned = append(w.returned, i)
		}
	}()
}

// expect fails the test unless the waits of exactly these tickets have returned so far.
func (w *waiters) expect(t *testing.T, want ...int) {
	t.Helper()
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	got := slices.Sorted(slices.Values(w.returned))
	if !slices.Equal(got, want) {
		t.Fatalf("returned: %v, want %v", got, want)
	}
}

func TestReleaseIsGradualInFIFOOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := queue.New(queue.Options{Batch: 3, Pace: hour, Wait: 2 * hour})
		w := newWaiters(t, q, 8)
		w.expect(t)
		q.Wake(1)
		w.expect(t, 0, 1, 2)
		if st := checkStats(t, q); st.Due != 5 || st.Released != 3 || st.Waiting != 8 {
			t.Errorf("after the first batch: %+v", st)
		}
		w.tickets[1].Leave()
		w.tickets[1].Leave()
		w.expect(t, 0, 1, 2, 3)
		w.wait(2, 1) // its shard still has no owner
		w.expect(t, 0, 1, 2, 3, 4)
		w.tickets[6].Leave() // leaves from the middle of the list
		w.expect(t, 0, 1, 2, 3, 4)
		for _, i := range []int{0, 3, 4} {
			w.tickets[i].Leave()
		}
		w.expect(t, 0, 1, 2, 3, 4, 5, 7)
		q.Wake(2)
		w.expect(t, 0, 1, 2, 2, 3, 4, 5, 7)
		for _, tk := range w.tickets {
			tk.Leave()
		}
		if st := checkStats(t, q); st.Waiting != 0 || st.Dequeued != 8 || st.Due != 0 {
			t.Errorf("final stats: %+v", st)
		}
	})
}

// Tickets that are due but not released when the next table arrives stay ahead of tickets that started
// to wait later.
func TestSecondWakeKeepsFIFOOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := queue.New(queue.Options{Batch: 2, Pace: hour, Wait: 2 * hour})
		w := newWaiters(t, q, 4)
		q.Wake(1)
		w.expect(t, 0, 1)
		w.wait(0, 1)
		w.expect(t, 0, 1, 2)
		q.Wake(2)
		w.tickets[1].Leave()
		w.expect(t, 0, 1, 2, 3)
		w.tickets[2].Leave()
		w.expect(t, 0, 0, 1, 2, 3)
	})
}

// Without Options.Pace, one batch of requests to an owner that does not accept connections would block
// all other requests until their deadline.
func TestSlowRequestsDoNotBlockTheRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := queue.New(queue.Options{Batch: 2, Pace: 50 * time.Millisecond, CPUUsage: preempted()})
		w := newWaiters(t, q, 11)
		q.Wake(1)
		w.expect(t, 0, 1)
		time.Sleep(49 * time.Millisecond)
		w.expect(t, 0, 1)
		time.Sleep(time.Millisecond)
		w.expect(t, 0, 1, 2, 3, 4, 5)
		w.tickets[0].Leave() // released in the previous round: no longer counts
		w.expect(t, 0, 1, 2, 3, 4, 5)
		w.tickets[2].Leave()
		w.expect(t, 0, 1, 2, 3, 4, 5, 6)
		time.Sleep(50 * time.Millisecond)
		w.expect(t, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10)
		if st := checkStats(t, q); st.Due != 0 {
			t.Errorf("final stats: %+v", st)
		}
	})
}

// preempted returns the CPU usage of a process that often has to wait for a CPU.
func preempted() func() (time.Duration, int64) {
	n := int64(0)
	return func() (time.Duration, int64) {
		n += 1000
		return time.Duration(n), n
	}
}

// A dequeued ticket frees its slot, but stays outstanding until its response has started.
func TestDequeuedTicketStaysOutstandingUntilLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := queue.New(queue.Options{Batch: 2, Pace: hour, Wait: 2 * hour, CPUUsage: preempted()})
		w := newWaiters(t, q, 5)
		q.Wake(1)
		w.expect(t, 0, 1)
		w.tickets[0].Dequeue()
		w.tickets[1].Dequeue()
		w.expect(t, 0, 1)
		if st := checkStats(t, q); st.Waiting != 3 || st.Dequeued != 2 || st.Due != 3 {
			t.Errorf("with two outstanding: %+v", st)
		}
		w.tickets[0].Leave()
		w.expect(t, 0, 1, 2)
		w.tickets[0].Leave()
		w.expect(t, 0, 1, 2)
		w.tickets[2].Leave() // not dequeued: its client has disconnected
		w.expect(t, 0, 1, 2, 3)
		w.tickets[4].Leave()
	})
}

// The limit doubles at each check while the process has spare CPU time, and grows by one batch per
// round otherwise. The next release starts with one batch again.
func TestLimitGrowsWithSpareCPUTime(t *testing.T) {
	const check = 10 * time.Millisecond
	allCPUs := time.Duration(runtime.GOMAXPROCS(0)) * check
	using := func(d time.Duration) func() (time.Duration, int64) {
		n := time.Duration(0)
		return func() (time.Duration, int64) { n += d; return n, 7 }
	}
	quick, slow := []uint64{2, 4, 8, 16, 32, 96, 160}, []uint64{2, 2, 2, 2, 2, 6, 6, 6, 6, 6, 14}
	for name, p := range map[string]struct {
		cpuUsage func() (time.Duration, int64)
		want     []uint64 // released by each check; no ticket leaves
	}{
		"unknown":   {nil, quick},
		"79 % used": {using(allCPUs * 79 / 100), quick},
		"81 % used": {using(allCPUs * 81 / 100), slow},
		"preempted": {preempted(), slow},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := queue.New(queue.Options{Batch: 2, Pace: 5 * check, Wait: hour, CPUUsage: p.cpuUsage})
				for release := range uint64(2) {
					w := newWaitersWithGeneration(t, q, 200, release)
					before := q.Stats().Released
					q.Wake(release + 1)
					for i, want := range p.want {
						synctest.Wait()
						if got := q.Stats().Released - before; got != want {
							t.Fatalf("release %d, check %d: %d released, want %d", release+1, i, got, want)
						}
						time.Sleep(check)
					}
					for _, tk := range w.tickets {
						tk.Leave()
					}
					time.Sleep(check)
				}
			})
		})
	}
}

// Outstanding tickets of an earlier release must not reduce the first batch of the next release, and
// must not release further tickets when they leave.
func TestTicketsOfEarlierReleaseDoNotAffectTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := queue.New(queue.Options{Batch: 2, Pace: 50 * time.Millisecond, Wait: hour, CPUUsage: preempted()})
		before := newWaiters(t, q, 2)
		q.Wake(1)
		before.expect(t, 0, 1)
		time.Sleep(10 * time.Millisecond) // one check, while no ticket is due
		w := newWaitersWithGeneration(t, q, 4, 1)
		q.Wake(2)
		w.expect(t, 0, 1)
		before.tickets[0].Leave()
		before.tickets[1].Leave()
		w.expect(t, 0, 1)
		for _, tk := range w.tickets {
			tk.Leave()
		}
	})
}

// The client disconnects just before its request is released: Wait returns ErrCanceled, but the pacer
// has counted the ticket as outstanding. The next ticket must be released before Leave is called.
func TestCancelAtTheMomentOfReleaseReleasesTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for range 200 { // the scheduler decides which of the two events comes first
			q := queue.New(queue.Options{Batch: 1, Pace: hour})
			done := make(chan struct{})
			first := enter(t, q, 1, 0)
			a := startWait(first, done, 0, 0)
			b := startWait(enter(t, q, 2, 0), nil, 0, 0)
			close(done)
			q.Wake(1)
			checkReturned(t, "client disconnected", a, queue.ErrCanceled)
			checkReturned(t, "next ticket", b, nil)
		}
	})
}

// A ticket that has released the next one by waiting again must not release another one when it
// leaves.
func TestTicketReleasesTheNextOnlyOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := queue.New(queue.Options{Batch: 1, Pace: hour})
		w := newWaiters(t, q, 3)
		q.Wake(1)
		w.expect(t, 0)
		done := make(chan struct{})
		close(done)
		if err := w.tickets[0].Wait(done, 1, 0); !errors.Is(err, queue.ErrCanceled) {
			t.Errorf("Wait = %v, want ErrCanceled", err)
		}
		w.expect(t, 0, 1)
		w.tickets[0].Leave()
		w.expect(t, 0, 1)
		w.tickets[2].Leave()
	})
}

// A request must not fail at its deadline if a newer table may contain its owner. It may check that
// table once, and only once.
func TestDueTicketMayCheckOnceAfterItsDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := queue.New(queue.Options{Batch: 1, Pace: hour, Wait: time.Second})
		w := newWaiters(t, q, 1)
		late := enter(t, q, 9, 0)
		result := startWait(late, nil, 0, 0)
		q.Wake(1)
		w.expect(t, 0)
		checkBlocked(t, "not released", result)
		time.Sleep(time.Second)
		checkReturned(t, "last check", result, nil)
		q.Wake(2) // a newer table does not allow another check
		if err := late.Wait(nil, 1, 0); !errors.Is(err, queue.ErrTimeout) {
			t.Errorf("Wait after the last check = %v, want ErrTimeout", err)
		}
	})
}

// A released ticket may find that its table was replaced while it checked it, or that its condition is
// ready. Its Wait returns at once, so the ticket stays outstanding, and the next one is not released in
// addition.
func TestWaitThatReturnsAtOnceReleasesNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := queue.New(queue.Options{Batch: 2, Pace: hour, Wait: 2 * hour})
		w := newWaiters(t, q, 5)
		q.Wake(1)
		w.expect(t, 0, 1)
		q.Wake(2)
		w.wait(0, 1) // it has checked the table before this one
		w.expect(t, 0, 0, 1)
		var d condition
		d.open.Store(true)
		checkReturned(t, "condition is ready", startWaitFor(w.tickets[1], 2, &d), nil)
		w.expect(t, 0, 0, 1)
		w.wait(0, 2) // blocks
		w.expect(t, 0, 0, 1, 2)
		w.tickets[1].Leave()
		w.expect(t, 0, 0, 1, 2, 3)
		for _, tk := range w.tickets {
			tk.Leave()
		}
	})
}

func TestDeadlineBetweenTwoWaitsAllowsOneCheck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := queue.New(queue.Options{Wait: time.Second})
		tk := enter(t, q, 1, 0)
		time.Sleep(2 * time.Second)
		q.Wake(1)
		if err := tk.Wait(nil, 0, 0); err != nil {
			t.Errorf("Wait = %v, want nil", err)
		}
		if err := tk.Wait(nil, 0, 0); !errors.Is(err, queue.ErrTimeout) {
			t.Errorf("Wait = %v, want ErrTimeout", err)
		}
	})
}

// At a fixed rate, tickets that leave do not release others. Each batch is released after one Pace.
func TestFixedRateReleasesOneBatchPerPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const pace = 50 * time.Millisecond
		q := queue.New(queue.Options{Batch: 2, Pace: pace, FixedRate: true})
		start := time.Now()
		released := make(chan time.Duration, 5)
		for range cap(released) {
			tk := enter(t, q, 1, 1)
			go func() {
				if err := tk.Wait(nil, 0, 0); err != nil {
					t.Error(err)
				}
				released <- time.Since(start)
				tk.Leave()
			}()
		}
		synctest.Wait()
		q.Wake(1)
		for i := range cap(released) {
			if took, want := <-released, time.Duration(i/2)*pace; took != want {
				t.Errorf("ticket %d was released after %v, want %v", i+1, took, want)
			}
		}
	})
}
