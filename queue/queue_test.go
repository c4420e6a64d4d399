package queue_test

import (
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"shardway/queue"
)

const hour = time.Hour

// enter enters or fails the test.
func enter(t *testing.T, r *queue.Room, shard uint32, bytes int64) *queue.Ticket {
	t.Helper()
	tk, err := r.Enter(shard, bytes)
	if err != nil {
		t.Fatalf("Enter(%d, %d): %v", shard, bytes, err)
	}
	return tk
}

// waiting starts a goroutine that waits on tk, and returns its result once there
// is one. The caller is in a bubble.
func waiting(tk *queue.Ticket, done <-chan struct{}, seen uint64, limit time.Duration) <-chan error {
	result := make(chan error, 1)
	go func() { result <- tk.Wait(done, seen, limit) }()
	synctest.Wait()
	return result
}

// pending fails the test if there is a result already.
func pending(t *testing.T, what string, result <-chan error) {
	t.Helper()
	synctest.Wait()
	select {
	case err := <-result:
		t.Fatalf("%s: Wait returned %v, want it to wait", what, err)
	default:
	}
}

// returned fails the test unless there is a result by now, and it is want.
func returned(t *testing.T, what string, result <-chan error, want error) {
	t.Helper()
	synctest.Wait()
	select {
	case err := <-result:
		if !errors.Is(err, want) {
			t.Fatalf("%s: Wait = %v, want %v", what, err, want)
		}
	default:
		t.Fatalf("%s: still waits, want %v", what, want)
	}
}

// balanced checks the books of a room.
func balanced(t *testing.T, r *queue.Room) queue.Stats {
	t.Helper()
	st := r.Stats()
	if st.Entered != uint64(st.Waiting)+st.WentOn+st.TimedOut+st.Gone {
		t.Errorf("the books do not balance: %+v", st)
	}
	return st
}

func TestWaitEndsWhenTheTableIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := queue.New(queue.Options{})
		r.Wake(4)
		tk := enter(t, r, 1, 10)
		result := waiting(tk, nil, 4, 0)
		pending(t, "generation 4", result)
		r.Wake(4)
		r.Wake(3)
		pending(t, "generations 4 and 3 again", result)
		r.Wake(5)
		returned(t, "generation 5", result, nil)
		tk.Leave()
		if st := balanced(t, r); st.Waiting != 0 || st.Bytes != 0 || st.WentOn != 1 || st.Awakened != 1 {
			t.Errorf("after Leave: %+v", st)
		}
	})
}

func TestWaitReturnsAtOnceWhenANewerTableIsThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := queue.New(queue.Options{})
		r.Wake(7)
		tk := enter(t, r, 1, 0)
		start := time.Now()
		if err := tk.Wait(nil, 6, 0); err != nil || time.Since(start) != 0 {
			t.Errorf("Wait = %v after %v, want nil at once", err, time.Since(start))
		}
	})
}

// A caller may load a table before Wake tells the room of it. It must then not be
// sent back by the news that it has already acted on.
func TestWaiterAheadOfTheRoomIsNotAwakenedByWhatItKnows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := queue.New(queue.Options{})
		ahead := waiting(enter(t, r, 1, 0), nil, 9, 0)
		behind := waiting(enter(t, r, 1, 0), nil, 8, 0)
		r.Wake(9)
		pending(t, "has seen 9", ahead)
		returned(t, "has seen 8", behind, nil)
		r.Wake(10)
		returned(t, "has seen 9", ahead, nil)
	})
}

func TestDeadlineCountsFromEnter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := queue.New(queue.Options{Wait: 10 * time.Second})
		start := time.Now()
		tk := enter(t, r, 1, 0)
		for gen := range uint64(3) { // 9 seconds in parts
			result := waiting(tk, nil, gen, 0)
			time.Sleep(3 * time.Second)
			r.Wake(gen + 1)
			returned(t, "woken", result, nil)
		}
		if err := tk.Wait(nil, 3, 0); !errors.Is(err, queue.ErrTimeout) {
			t.Errorf("Wait = %v, want ErrTimeout", err)
		}
		if took := time.Since(start); took != 10*time.Second {
			t.Errorf("waited %v, want 10s in all", took)
		}
		if err := tk.Wait(nil, 3, time.Second); !errors.Is(err, queue.ErrTimeout) {
			t.Errorf("Wait again = %v, want ErrTimeout", err)
		}
		tk.Leave()
		if st := balanced(t, r); st.TimedOut != 1 {
			t.Errorf("after a timeout: %+v", st)
		}
	})
}

func TestWaitEndsWhenTheClientGoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := queue.New(queue.Options{Requests: 1})
		tk := enter(t, r, 1, 0)
		done := make(chan struct{})
		result := waiting(tk, done, 0, 0)
		close(done)
		returned(t, "client gone", result, queue.ErrGone)
		r.Wake(1)
		if err := tk.Wait(done, 0, 0); !errors.Is(err, queue.ErrGone) {
			t.Errorf("Wait with a client long gone = %v, want ErrGone", err)
		}
		tk.Leave()
		enter(t, r, 2, 0).Leave() // the place is free again
		if st := balanced(t, r); st.Gone != 1 || st.WentOn != 1 {
			t.Errorf("after a client went: %+v", st)
		}
	})
}

func TestBackOffEndsByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := queue.New(queue.Options{Wait: time.Second})
		tk := enter(t, r, 1, 0)
		start := time.Now()
		for i, ms := range []int{10, 20, 40, 80, 160, 200} {
			limit := time.Duration(ms) * time.Millisecond
			before := time.Now()
			if err := tk.Wait(nil, 0, limit); err != nil {
				t.Fatalf("back-off %d: %v", i, err)
			}
			if took := time.Since(before); took != limit {
				t.Errorf("back-off %d took %v, want %v", i, took, limit)
			}
		}
		// The deadline is nearer than the back-off: it wins.
		if err := tk.Wait(nil, 0, time.Minute); !errors.Is(err, queue.ErrTimeout) {
			t.Errorf("Wait = %v, want ErrTimeout", err)
		}
		if took := time.Since(start); took != time.Second {
			t.Errorf("waited %v, want 1s in all", took)
		}
	})
}

func TestBackOffEndsEarlyWhenTheTableIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := queue.New(queue.Options{})
		result := waiting(enter(t, r, 1, 0), nil, 0, 200*time.Millisecond)
		time.Sleep(5 * time.Millisecond)
		r.Wake(1)
		returned(t, "back-off", result, nil)
	})
}

func TestLeaveEndsAWaitUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := queue.New(queue.Options{})
		tk := enter(t, r, 1, 0)
		result := waiting(tk, nil, 0, 0)
		tk.Leave()
		returned(t, "left", result, queue.ErrGone)
		if st := balanced(t, r); st.Waiting != 0 {
			t.Errorf("after Leave: %+v", st)
		}
	})
}

func TestWaitAfterLeaveReportsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tk := enter(t, queue.New(queue.Options{}), 1, 0)
		tk.Leave()
		if err := tk.Wait(nil, 0, 0); !errors.Is(err, queue.ErrGone) {
			t.Errorf("Wait = %v, want ErrGone", err)
		}
	})
}

func TestRoomRefusesPastItsBounds(t *testing.T) {
	r := queue.New(queue.Options{Requests: 3, Bytes: 100})
	refuse := func(shard uint32, bytes int64, want error) {
		t.Helper()
		if tk, err := r.Enter(shard, bytes); !errors.Is(err, want) || tk != nil {
			t.Errorf("Enter(%d, %d) = %v, %v, want %v", shard, bytes, tk, err, want)
		}
	}
	refuse(1, 101, queue.ErrFull)
	a := enter(t, r, 1, 60)
	refuse(2, 41, queue.ErrFull)
	b := enter(t, r, 2, 40)
	c := enter(t, r, 3, -5) // not above the bound: no bytes
	refuse(4, 0, queue.ErrFull)
	a.Leave()
	a.Leave() // gives back one place, not two
	d := enter(t, r, 4, 60)
	refuse(5, 0, queue.ErrFull)
	for _, tk := range []*queue.Ticket{b, c, d} {
		tk.Leave()
	}
	if st := balanced(t, r); st.Waiting != 0 || st.Bytes != 0 || st.RefusedFull != 4 || st.Entered != 4 {
		t.Errorf("in the end: %+v", st)
	}
}

func TestNegativeBoundsLetNobodyWait(t *testing.T) {
	if _, err := queue.New(queue.Options{Requests: -1}).Enter(1, 0); !errors.Is(err, queue.ErrFull) {
		t.Errorf("Requests -1: %v, want ErrFull", err)
	}
	r := queue.New(queue.Options{Bytes: -1})
	if _, err := r.Enter(1, 1); !errors.Is(err, queue.ErrFull) {
		t.Errorf("Bytes -1: %v, want ErrFull", err)
	}
	enter(t, r, 1, 0).Leave()
}

func TestOneShardTakesAQuarterWhileOthersWait(t *testing.T) {
	r := queue.New(queue.Options{Requests: 16})
	var hot []*queue.Ticket
	for range 10 { // alone it may take more
		hot = append(hot, enter(t, r, 1, 0))
	}
	other := enter(t, r, 2, 0)
	if _, err := r.Enter(1, 0); !errors.Is(err, queue.ErrShare) {
		t.Errorf("with 10 of 16 and another waiting: %v, want ErrShare", err)
	}
	for _, tk := range hot[:7] {
		tk.Leave()
	}
	hot = append(hot[7:], enter(t, r, 1, 0)) // 4 of 16
	if _, err := r.Enter(1, 0); !errors.Is(err, queue.ErrShare) {
		t.Errorf("with 4 of 16 and another waiting: %v, want ErrShare", err)
	}
	other.Leave()
	enter(t, r, 1, 0).Leave() // alone again
	for _, tk := range hot {
		tk.Leave()
	}
	if st := balanced(t, r); st.RefusedShare != 2 || st.Waiting != 0 {
		t.Errorf("in the end: %+v", st)
	}
}

func TestShareIsAtLeastOne(t *testing.T) {
	r := queue.New(queue.Options{Requests: 2})
	enter(t, r, 1, 0)
	enter(t, r, 2, 0)
	if _, err := r.Enter(3, 0); !errors.Is(err, queue.ErrFull) {
		t.Errorf("third of two: %v, want ErrFull", err)
	}
}

// crowd is a number of tickets in line, in known order; they have seen table 0.
type crowd struct {
	tickets []*queue.Ticket
	mu      sync.Mutex
	awake   []int // in the order in which they returned; not within one instant
}

func newCrowd(t *testing.T, r *queue.Room, n int) *crowd {
	t.Helper()
	c := &crowd{}
	for i := range n {
		tk := enter(t, r, uint32(i), 0)
		c.tickets = append(c.tickets, tk)
		c.wait(i, 0)
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
		if st := balanced(t, r); st.Due != 5 || st.Awakened != 3 || st.Waiting != 8 {
			t.Errorf("after the first batch: %+v", st)
		}
		c.tickets[1].Leave()
		c.tickets[1].Leave()
		c.expect(t, 0, 1, 2, 3)
		c.wait(2, 1) // its shard is still without an owner
		c.expect(t, 0, 1, 2, 3, 4)
		c.tickets[6].Leave() // leaves from the middle of the line
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
		if st := balanced(t, r); st.Waiting != 0 || st.WentOn != 8 || st.Due != 0 {
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
		r := queue.New(queue.Options{Batch: 2, Pace: 50 * time.Millisecond})
		c := newCrowd(t, r, 7)
		r.Wake(1)
		c.expect(t, 0, 1)
		time.Sleep(49 * time.Millisecond)
		c.expect(t, 0, 1)
		time.Sleep(time.Millisecond)
		c.expect(t, 0, 1, 2, 3)
		c.tickets[0].Leave() // of the round before: no longer counts
		c.expect(t, 0, 1, 2, 3)
		c.tickets[2].Leave()
		c.expect(t, 0, 1, 2, 3, 4)
		time.Sleep(50 * time.Millisecond)
		c.expect(t, 0, 1, 2, 3, 4, 5, 6)
		if st := balanced(t, r); st.Due != 0 {
			t.Errorf("in the end: %+v", st)
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
			returned(t, "client gone", a, queue.ErrGone)
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
		if err := c.tickets[0].Wait(done, 1, 0); !errors.Is(err, queue.ErrGone) {
			t.Errorf("Wait = %v, want ErrGone", err)
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
