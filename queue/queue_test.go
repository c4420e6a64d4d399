package queue_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"shardway/queue"
)

const hour = time.Hour

// enter calls Enter, and fails the test on error.
func enter(t *testing.T, q *queue.Queue, shard uint32, bytes int64) *queue.Ticket {
	t.Helper()
	tk, err := q.Enter(shard, bytes)
	if err != nil {
		t.Fatalf("Enter(%d, %d): %v", shard, bytes, err)
	}
	return tk
}

// startWait calls Wait in a new goroutine, and returns a channel for its result. The caller must be
// in a synctest bubble.
func startWait(tk *queue.Ticket, done <-chan struct{}, seen uint64, limit time.Duration) <-chan error {
	result := make(chan error, 1)
	go func() { result <- tk.Wait(done, seen, limit) }()
	synctest.Wait()
	return result
}

// checkBlocked fails the test if Wait has returned.
func checkBlocked(t *testing.T, what string, result <-chan error) {
	t.Helper()
	synctest.Wait()
	select {
	case err := <-result:
		t.Fatalf("%s: Wait returned %v, want it to block", what, err)
	default:
	}
}

// checkReturned fails the test unless Wait has returned want.
func checkReturned(t *testing.T, what string, result <-chan error, want error) {
	t.Helper()
	synctest.Wait()
	select {
	case err := <-result:
		if !errors.Is(err, want) {
			t.Fatalf("%s: Wait = %v, want %v", what, err, want)
		}
	default:
		t.Fatalf("%s: Wait blocks, want %v", what, want)
	}
}

// checkStats fails the test unless the counters of q add up, and returns them.
func checkStats(t *testing.T, q *queue.Queue) queue.Stats {
	t.Helper()
	st := q.Stats()
	if st.Entered != uint64(st.Waiting)+st.Dequeued+st.TimedOut+st.Canceled {
		t.Errorf("counters do not add up: %+v", st)
	}
	return st
}

func TestWaitEndsWhenTheTableIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := queue.New(queue.Options{})
		q.Wake(4)
		tk := enter(t, q, 1, 10)
		result := startWait(tk, nil, 4, 0)
		checkBlocked(t, "generation 4", result)
		q.Wake(4)
		q.Wake(3)
		checkBlocked(t, "generations 4 and 3 again", result)
		q.Wake(5)
		checkReturned(t, "generation 5", result, nil)
		tk.Leave()
		if st := checkStats(t, q); st.Waiting != 0 || st.Bytes != 0 || st.Dequeued != 1 || st.Released != 1 {
			t.Errorf("after Leave: %+v", st)
		}
	})
}

func TestWaitReturnsAtOnceIfTableIsNewer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := queue.New(queue.Options{})
		q.Wake(7)
		tk := enter(t, q, 1, 0)
		start := time.Now()
		if err := tk.Wait(nil, 6, 0); err != nil || time.Since(start) != 0 {
			t.Errorf("Wait = %v after %v, want nil at once", err, time.Since(start))
		}
	})
}

// A caller may load a table before Wake announces it. The announcement must then not end its wait.
func TestWakeSkipsWaiterThatHasSeenTheTable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := queue.New(queue.Options{})
		ahead := startWait(enter(t, q, 1, 0), nil, 9, 0)
		behind := startWait(enter(t, q, 1, 0), nil, 8, 0)
		q.Wake(9)
		checkBlocked(t, "has seen 9", ahead)
		checkReturned(t, "has seen 8", behind, nil)
		q.Wake(10)
		checkReturned(t, "has seen 9", ahead, nil)
	})
}

func TestDeadlineCountsFromEnter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := queue.New(queue.Options{Wait: 10 * time.Second})
		start := time.Now()
		tk := enter(t, q, 1, 0)
		for gen := range uint64(3) { // 9 seconds in three waits
			result := startWait(tk, nil, gen, 0)
			time.Sleep(3 * time.Second)
			q.Wake(gen + 1)
			checkReturned(t, "woken", result, nil)
		}
		if err := tk.Wait(nil, 3, 0); !errors.Is(err, queue.ErrTimeout) {
			t.Errorf("Wait = %v, want ErrTimeout", err)
		}
		if took := time.Since(start); took != 10*time.Second {
			t.Errorf("waited %v, want 10s in total", took)
		}
		if err := tk.Wait(nil, 3, time.Second); !errors.Is(err, queue.ErrTimeout) {
			t.Errorf("Wait again = %v, want ErrTimeout", err)
		}
		tk.Leave()
		if st := checkStats(t, q); st.TimedOut != 1 {
			t.Errorf("after a timeout: %+v", st)
		}
	})
}

func TestWaitEndsWhenClientDisconnects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := queue.New(queue.Options{Requests: 1})
		tk := enter(t, q, 1, 0)
		done := make(chan struct{})
		result := startWait(tk, done, 0, 0)
		close(done)
		checkReturned(t, "client disconnected", result, queue.ErrCanceled)
		q.Wake(1)
		if err := tk.Wait(done, 0, 0); !errors.Is(err, queue.ErrCanceled) {
			t.Errorf("Wait after the disconnect = %v, want ErrCanceled", err)
		}
		tk.Leave()
		enter(t, q, 2, 0).Leave() // the slot is free again
		if st := checkStats(t, q); st.Canceled != 1 || st.Dequeued != 1 {
			t.Errorf("after the disconnect: %+v", st)
		}
	})
}

func TestBackOffEndsAfterItsLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := queue.New(queue.Options{Wait: time.Second})
		tk := enter(t, q, 1, 0)
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
		// The deadline is earlier than the end of the back-off.
		if err := tk.Wait(nil, 0, time.Minute); !errors.Is(err, queue.ErrTimeout) {
			t.Errorf("Wait = %v, want ErrTimeout", err)
		}
		if took := time.Since(start); took != time.Second {
			t.Errorf("waited %v, want 1s in total", took)
		}
	})
}

func TestBackOffEndsEarlyWhenTheTableIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := queue.New(queue.Options{})
		result := startWait(enter(t, q, 1, 0), nil, 0, 200*time.Millisecond)
		time.Sleep(5 * time.Millisecond)
		q.Wake(1)
		checkReturned(t, "back-off", result, nil)
	})
}

func TestLeaveEndsAWaitInProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := queue.New(queue.Options{})
		tk := enter(t, q, 1, 0)
		result := startWait(tk, nil, 0, 0)
		tk.Leave()
		checkReturned(t, "left", result, queue.ErrCanceled)
		if st := checkStats(t, q); st.Waiting != 0 {
			t.Errorf("after Leave: %+v", st)
		}
	})
}

func TestWaitAfterLeaveReturnsErrCanceled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tk := enter(t, queue.New(queue.Options{}), 1, 0)
		tk.Leave()
		began := time.Now()
		if err := tk.Wait(nil, 0, 0); !errors.Is(err, queue.ErrCanceled) || time.Since(began) > 0 {
			t.Errorf("Wait = %v after %v, want ErrCanceled at once", err, time.Since(began))
		}
	})
}

func TestEnterRefusesBeyondLimits(t *testing.T) {
	q := queue.New(queue.Options{Requests: 3, Bytes: 100})
	refuse := func(shard uint32, bytes int64, want error) {
		t.Helper()
		if tk, err := q.Enter(shard, bytes); !errors.Is(err, want) || tk != nil {
			t.Errorf("Enter(%d, %d) = %v, %v, want %v", shard, bytes, tk, err, want)
		}
	}
	refuse(1, 101, queue.ErrFull)
	a := enter(t, q, 1, 60)
	refuse(2, 41, queue.ErrFull)
	b := enter(t, q, 2, 40)
	c := enter(t, q, 3, -5) // a negative size counts as 0
	refuse(4, 0, queue.ErrFull)
	a.Leave()
	a.Leave() // frees one slot, not two
	d := enter(t, q, 4, 60)
	refuse(5, 0, queue.ErrFull)
	for _, tk := range []*queue.Ticket{b, c, d} {
		tk.Leave()
	}
	if st := checkStats(t, q); st.Waiting != 0 || st.Bytes != 0 || st.RefusedFull != 4 || st.Entered != 4 {
		t.Errorf("final stats: %+v", st)
	}
}

func TestNegativeLimitsRefuseAllRequests(t *testing.T) {
	if _, err := queue.New(queue.Options{Requests: -1}).Enter(1, 0); !errors.Is(err, queue.ErrFull) {
		t.Errorf("Requests -1: %v, want ErrFull", err)
	}
	q := queue.New(queue.Options{Bytes: -1})
	if _, err := q.Enter(1, 1); !errors.Is(err, queue.ErrFull) {
		t.Errorf("Bytes -1: %v, want ErrFull", err)
	}
	enter(t, q, 1, 0).Leave()
}

func TestShardMayUseAQuarterOfSlotsWhileOthersWait(t *testing.T) {
	q := queue.New(queue.Options{Requests: 16})
	var hot []*queue.Ticket
	for range 8 { // half of the slots while no other shard waits
		hot = append(hot, enter(t, q, 1, 0))
	}
	if _, err := q.Enter(1, 0); !errors.Is(err, queue.ErrShardLimit) {
		t.Errorf("with 8 of 16 slots and no other shard: %v, want ErrShardLimit", err)
	}
	other := enter(t, q, 2, 0)
	if _, err := q.Enter(1, 0); !errors.Is(err, queue.ErrShardLimit) {
		t.Errorf("with 8 of 16 slots and another shard waiting: %v, want ErrShardLimit", err)
	}
	for _, tk := range hot[:5] {
		tk.Leave()
	}
	hot = append(hot[5:], enter(t, q, 1, 0)) // 4 of 16
	if _, err := q.Enter(1, 0); !errors.Is(err, queue.ErrShardLimit) {
		t.Errorf("with 4 of 16 slots and another shard waiting: %v, want ErrShardLimit", err)
	}
	other.Leave()
	enter(t, q, 1, 0).Leave() // no other shard waits
	for _, tk := range hot {
		tk.Leave()
	}
	if st := checkStats(t, q); st.RefusedShardLimit != 3 || st.Waiting != 0 {
		t.Errorf("final stats: %+v", st)
	}
}

// Without this limit the uploads for one key used all bytes, and no other request could wait.
func TestShardMayUseHalfOfTheBytes(t *testing.T) {
	q := queue.New(queue.Options{Bytes: 100})
	first := enter(t, q, 1, 90) // the first request may use all bytes
	if _, err := q.Enter(1, 1); !errors.Is(err, queue.ErrShardLimit) {
		t.Errorf("with 90 of 100 bytes: %v, want ErrShardLimit", err)
	}
	first.Leave()
	a := enter(t, q, 1, 25)
	b := enter(t, q, 1, 25)
	if _, err := q.Enter(1, 1); !errors.Is(err, queue.ErrShardLimit) {
		t.Errorf("with half of the bytes: %v, want ErrShardLimit", err)
	}
	b.Leave()
	other := enter(t, q, 2, 10)
	if _, err := q.Enter(1, 1); !errors.Is(err, queue.ErrShardLimit) {
		t.Errorf("with a quarter of the bytes and another shard waiting: %v, want ErrShardLimit", err)
	}
	enter(t, q, 1, 0).Leave()
	for _, tk := range []*queue.Ticket{a, other} {
		tk.Leave()
	}
	if st := checkStats(t, q); st.RefusedShardLimit != 3 || st.Bytes != 0 {
		t.Errorf("final stats: %+v", st)
	}
}

// Requests that arrived before the first map belong to no shard.
func TestNoShardHasNoShardLimit(t *testing.T) {
	q := queue.New(queue.Options{Requests: 4})
	for range 4 {
		enter(t, q, queue.NoShard, 0)
	}
	if _, err := q.Enter(queue.NoShard, 0); !errors.Is(err, queue.ErrFull) {
		t.Errorf("the fifth of four: %v, want ErrFull", err)
	}
}

func TestShardLimitIsAtLeastOneSlot(t *testing.T) {
	q := queue.New(queue.Options{Requests: 2})
	enter(t, q, 1, 0)
	enter(t, q, 2, 0)
	if _, err := q.Enter(3, 0); !errors.Is(err, queue.ErrFull) {
		t.Errorf("third of two: %v, want ErrFull", err)
	}
}
