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

// crowd is a number of tickets in line, in known order; they have seen table 0.
type crowd struct {
	tickets []*queue.Ticket
	mu      sync.Mutex
	awake   []int // in the order in which they returned; not within one instant
}

func newCrowd(t *testing.T, r *queue.Queue, n int) *crowd {
	t.Helper()
	return newCrowdAt(t, r, n, 0)
}

// newCrowdAt is newCrowd with another table.
func newCrowdAt(t *testing.T, r *queue.Queue, n int, seen uint64) *crowd {
	t.Helper()
	c := &crowd{}
	for i := range n {
		tk := enter(t, r, uint32(i), 0)
		c.tickets = append(c.tickets, tk)
		c.wait(i, seen)
		synctest.Wait() // so that the order is certain
	}
	return c
}

func (c *crowd) wait(i int, seen uint64) {
	go func() {
		if c.tickets[i].Wait(nil, seen, 0) == nil {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.awake = append(c.awake, i)
		}
	}()
}

// expect fails the test unless exactly these have been awakened so far.
func (c *crowd) expect(t *testing.T, want ...int) {
	t.Helper()
	synctest.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	got := slices.Sorted(slices.Values(c.awake))
	if !slices.Equal(got, want) {
		t.Fatalf("awake: %v, want %v", got, want)
	}
}

func TestReleaseIsRampedFirstInFirstOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := queue.New(queue.Options{Batch: 3, Pace: hour, Wait: 2 * hour})
		c := newCrowd(t, r, 8)
		c.expect(t)
		r.Wake(1)
		c.expect(t, 0, 1, 2)
		if st := balanced(t, r); st.Due != 5 || st.Released != 3 || st.Waiting != 8 {
			t.Errorf("after the first batch: %+v", st)
		}
		c.tickets[1].Leave()
		c.tickets[1].Leave()
		c.expect(t, 0, 1, 2, 3)
		c.wait(2, 1) // its shard is still without an owner
		c.expect(t, 0, 1, 2, 3, 4)
		c.tickets[6].Leave() // leaves from the middle of the list
		c.expect(t, 0, 1, 2, 3, 4)
		for _, i := range []int{0, 3, 4} {
			c.tickets[i].Leave()
		}
		c.expect(t, 0, 1, 2, 3, 4, 5, 7)
		r.Wake(2)
		c.expect(t, 0, 1, 2, 2, 3, 4, 5, 7)
		for _, tk := range c.tickets {
			tk.Leave()
		}
		if st := balanced(t, r); st.Waiting != 0 || st.Dequeued != 8 || st.Due != 0 {
			t.Errorf("in the end: %+v", st)
		}
	})
}

// What the ramp has not reached when the next table comes stays in front of those
// who began to wait later.
func TestSecondWakeKeepsTheOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := queue.New(queue.Options{Batch: 2, Pace: hour, Wait: 2 * hour})
		c := newCrowd(t, r, 4)
		r.Wake(1)
		c.expect(t, 0, 1)
		c.wait(0, 1)
		c.expect(t, 0, 1, 2)
		r.Wake(2)
		c.tickets[1].Leave()
		c.expect(t, 0, 1, 2, 3)
		c.tickets[2].Leave()
		c.expect(t, 0, 0, 1, 2, 3)
	})
}

// Without a pace, a batch of requests to an owner that does not answer its dial would keep
// all others waiting to their deadline.
func TestSlowOnesDoNotHoldUpTheRamp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := queue.New(queue.Options{Batch: 2, Pace: 50 * time.Millisecond, CPUUsage: preempted()})
		c := newCrowd(t, r, 11)
		r.Wake(1)
		c.expect(t, 0, 1)
		time.Sleep(49 * time.Millisecond)
		c.expect(t, 0, 1)
		time.Sleep(time.Millisecond)
		c.expect(t, 0, 1, 2, 3, 4, 5)
		c.tickets[0].Leave() // of the round before: no longer counts
		c.expect(t, 0, 1, 2, 3, 4, 5)
		c.tickets[2].Leave()
		c.expect(t, 0, 1, 2, 3, 4, 5, 6)
		time.Sleep(50 * time.Millisecond)
		c.expect(t, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10)
		if st := balanced(t, r); st.Due != 0 {
			t.Errorf("in the end: %+v", st)
		}
	})
}

// preempted is of a process that has to wait for a processor now and then.
func preempted() func() (time.Duration, int64) {
	n := int64(0)
	return func() (time.Duration, int64) {
		n += 1000
		return time.Duration(n), n
	}
}

// Who has found its owner takes no room any more, and is one of those that are away until
// it is answered.
func TestWhoGoesOnKeepsItsTurnUntilItIsAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := queue.New(queue.Options{Batch: 2, Pace: hour, Wait: 2 * hour, CPUUsage: preempted()})
		c := newCrowd(t, r, 5)
		r.Wake(1)
		c.expect(t, 0, 1)
		c.tickets[0].Dequeue()
		c.tickets[1].Dequeue()
		c.expect(t, 0, 1)
		if st := balanced(t, r); st.Waiting != 3 || st.Dequeued != 2 || st.Due != 3 {
			t.Errorf("while two are away: %+v", st)
		}
		c.tickets[0].Leave()
		c.expect(t, 0, 1, 2)
		c.tickets[0].Leave()
		c.expect(t, 0, 1, 2)
		c.tickets[2].Leave() // without going on: its client has gone
		c.expect(t, 0, 1, 2, 3)
		c.tickets[4].Leave()
	})
}

// A ramp widens as fast as the process has processor time for: twice at each look, or by a
// batch in each round. The next one begins with a batch again.
func TestRampWidensAsThereIsTimeForMore(t *testing.T) {
	const look = 10 * time.Millisecond
	all := time.Duration(runtime.GOMAXPROCS(0)) * look
	uses := func(d time.Duration) func() (time.Duration, int64) {
		n := time.Duration(0)
		return func() (time.Duration, int64) { n += d; return n, 7 }
	}
	quick, slow := []uint64{2, 4, 8, 16, 32, 96, 160}, []uint64{2, 2, 2, 2, 2, 6, 6, 6, 6, 6, 14}
	for name, p := range map[string]struct {
		spent func() (time.Duration, int64)
		want  []uint64 // awakened by each look; nobody is answered
	}{
		"not known":         {nil, quick},
		"time to spare":     {uses(all * 79 / 100), quick},
		"no more to be had": {uses(all * 81 / 100), slow},
		"preempted":         {preempted(), slow},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := queue.New(queue.Options{Batch: 2, Pace: 5 * look, Wait: hour, CPUUsage: p.spent})
				for release := range uint64(2) {
					c := newCrowdAt(t, r, 200, release)
					before := r.Stats().Released
					r.Wake(release + 1)
					for i, want := range p.want {
						synctest.Wait()
						if got := r.Stats().Released - before; got != want {
							t.Fatalf("release %d, look %d: %d awakened, want %d", release+1, i, got, want)
						}
						time.Sleep(look)
					}
					for _, tk := range c.tickets {
						tk.Leave()
					}
					time.Sleep(look)
				}
			})
		})
	}
}

// Those of an earlier ramp that are not answered yet neither keep the next one from beginning with
// a batch, nor let anybody go as they are.
func TestAnEarlierRampIsNothingToTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := queue.New(queue.Options{Batch: 2, Pace: 50 * time.Millisecond, Wait: hour, CPUUsage: preempted()})
		before := newCrowd(t, r, 2)
		r.Wake(1)
		before.expect(t, 0, 1)
		time.Sleep(10 * time.Millisecond) // a look, and nobody is due
		c := newCrowdAt(t, r, 4, 1)
		r.Wake(2)
		c.expect(t, 0, 1)
		before.tickets[0].Leave()
		before.tickets[1].Leave()
		c.expect(t, 0, 1)
		for _, tk := range c.tickets {
			tk.Leave()
		}
	})
}

// The client goes just before its request is released: Wait reports it gone, but
// the ramp has counted it. Its turn must pass on even before it calls Leave.
func TestGoneInTheMomentOfReleasePassesTheTurnOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for range 200 { // which of the two comes first is up to the scheduler
			r := queue.New(queue.Options{Batch: 1, Pace: hour})
			done := make(chan struct{})
			first := enter(t, r, 1, 0)
			a := waiting(first, done, 0, 0)
			b := waiting(enter(t, r, 2, 0), nil, 0, 0)
			close(done)
			r.Wake(1)
			returned(t, "client gone", a, queue.ErrCanceled)
			returned(t, "next in line", b, nil)
		}
	})
}

// A ticket that has passed its turn on by waiting again must not do so once more
// when it leaves.
func TestTurnIsPassedOnOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := queue.New(queue.Options{Batch: 1, Pace: hour})
		c := newCrowd(t, r, 3)
		r.Wake(1)
		c.expect(t, 0)
		done := make(chan struct{})
		close(done)
		if err := c.tickets[0].Wait(done, 1, 0); !errors.Is(err, queue.ErrCanceled) {
			t.Errorf("Wait = %v, want ErrCanceled", err)
		}
		c.expect(t, 0, 1)
		c.tickets[0].Leave()
		c.expect(t, 0, 1)
		c.tickets[2].Leave()
	})
}

// A request must not fail for want of time while its owner may just have been
// found: it gets one more look, and only one.
func TestDeadlineOfADueTicketAllowsOneLastLook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := queue.New(queue.Options{Batch: 1, Pace: hour, Wait: time.Second})
		c := newCrowd(t, r, 1)
		late := enter(t, r, 9, 0)
		result := waiting(late, nil, 0, 0)
		r.Wake(1)
		c.expect(t, 0)
		pending(t, "not reached by the ramp", result)
		time.Sleep(time.Second)
		returned(t, "last look", result, nil)
		r.Wake(2) // even though there is always something newer
		if err := late.Wait(nil, 1, 0); !errors.Is(err, queue.ErrTimeout) {
			t.Errorf("Wait after the last look = %v, want ErrTimeout", err)
		}
	})
}

func TestLastLookWhenTheTimeIsOverBetweenTwoWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := queue.New(queue.Options{Wait: time.Second})
		tk := enter(t, r, 1, 0)
		time.Sleep(2 * time.Second)
		r.Wake(1)
		if err := tk.Wait(nil, 0, 0); err != nil {
			t.Errorf("Wait = %v, want a last look", err)
		}
		if err := tk.Wait(nil, 0, 0); !errors.Is(err, queue.ErrTimeout) {
			t.Errorf("Wait = %v, want ErrTimeout", err)
		}
	})
}

// Where the ramp is steady, those that have gone on let nobody go by being done: the others
// have their turn when the pace is over.
func TestSteadyRampGoesByItsPaceAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const pace = 50 * time.Millisecond
		r := queue.New(queue.Options{Batch: 2, Pace: pace, FixedRate: true})
		began := time.Now()
		went := make(chan time.Duration, 5)
		for range cap(went) {
			tk := enter(t, r, 1, 1)
			go func() {
				if err := tk.Wait(nil, 0, 0); err != nil {
					t.Error(err)
				}
				went <- time.Since(began)
				tk.Leave()
			}()
		}
		synctest.Wait()
		r.Wake(1)
		for i := range cap(went) {
			if took, want := <-went, time.Duration(i/2)*pace; took != want {
				t.Errorf("%d went on after %v, want %v", i+1, took, want)
			}
		}
	})
}
