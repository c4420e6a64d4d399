package queue_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"shardway/queue"
)

const hour = time.Hour

// enter enters or fails the test.
func enter(t *testing.T, r *queue.Queue, shard uint32, bytes int64) *queue.Ticket {
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
func balanced(t *testing.T, r *queue.Queue) queue.Stats {
	t.Helper()
	st := r.Stats()
	if st.Entered != uint64(st.Waiting)+st.Dequeued+st.TimedOut+st.Canceled {
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
		if st := balanced(t, r); st.Waiting != 0 || st.Bytes != 0 || st.Dequeued != 1 || st.Released != 1 {
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
		returned(t, "client gone", result, queue.ErrCanceled)
		r.Wake(1)
		if err := tk.Wait(done, 0, 0); !errors.Is(err, queue.ErrCanceled) {
			t.Errorf("Wait with a client long gone = %v, want ErrCanceled", err)
		}
		tk.Leave()
		enter(t, r, 2, 0).Leave() // the place is free again
		if st := balanced(t, r); st.Canceled != 1 || st.Dequeued != 1 {
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
		returned(t, "left", result, queue.ErrCanceled)
		if st := balanced(t, r); st.Waiting != 0 {
			t.Errorf("after Leave: %+v", st)
		}
	})
}

func TestWaitAfterLeaveReportsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tk := enter(t, queue.New(queue.Options{}), 1, 0)
		tk.Leave()
		began := time.Now()
		if err := tk.Wait(nil, 0, 0); !errors.Is(err, queue.ErrCanceled) || time.Since(began) > 0 {
			t.Errorf("Wait = %v after %v, want ErrCanceled at once", err, time.Since(began))
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
	for range 8 { // alone it may take half
		hot = append(hot, enter(t, r, 1, 0))
	}
	if _, err := r.Enter(1, 0); !errors.Is(err, queue.ErrShardLimit) {
		t.Errorf("with 8 of 16 and nobody else: %v, want ErrShardLimit", err)
	}
	other := enter(t, r, 2, 0)
	if _, err := r.Enter(1, 0); !errors.Is(err, queue.ErrShardLimit) {
		t.Errorf("with 8 of 16 and another waiting: %v, want ErrShardLimit", err)
	}
	for _, tk := range hot[:5] {
		tk.Leave()
	}
	hot = append(hot[5:], enter(t, r, 1, 0)) // 4 of 16
	if _, err := r.Enter(1, 0); !errors.Is(err, queue.ErrShardLimit) {
		t.Errorf("with 4 of 16 and another waiting: %v, want ErrShardLimit", err)
	}
	other.Leave()
	enter(t, r, 1, 0).Leave() // alone again
	for _, tk := range hot {
		tk.Leave()
	}
	if st := balanced(t, r); st.RefusedShardLimit != 3 || st.Waiting != 0 {
		t.Errorf("in the end: %+v", st)
	}
}

// One key's uploads took all of the bytes, and no other request could wait.
func TestOneShardTakesHalfOfTheBytes(t *testing.T) {
	r := queue.New(queue.Options{Bytes: 100})
	first := enter(t, r, 1, 90) // the first may be as large as all
	if _, err := r.Enter(1, 1); !errors.Is(err, queue.ErrShardLimit) {
		t.Errorf("beyond its share of bytes: %v, want ErrShardLimit", err)
	}
	first.Leave()
	a := enter(t, r, 1, 25)
	b := enter(t, r, 1, 25)
	if _, err := r.Enter(1, 1); !errors.Is(err, queue.ErrShardLimit) {
		t.Errorf("with half of the bytes: %v, want ErrShardLimit", err)
	}
	b.Leave()
	other := enter(t, r, 2, 10)
	if _, err := r.Enter(1, 1); !errors.Is(err, queue.ErrShardLimit) {
		t.Errorf("with a quarter of the bytes and another waiting: %v, want ErrShardLimit", err)
	}
	enter(t, r, 1, 0).Leave()
	for _, tk := range []*queue.Ticket{a, other} {
		tk.Leave()
	}
	if st := balanced(t, r); st.RefusedShardLimit != 3 || st.Bytes != 0 {
		t.Errorf("in the end: %+v", st)
	}
}

// Requests that came before there was a map count for no shard.
func TestRequestsWithoutAShardHaveNoShare(t *testing.T) {
	r := queue.New(queue.Options{Requests: 4})
	for range 4 {
		enter(t, r, queue.NoShard, 0)
	}
	if _, err := r.Enter(queue.NoShard, 0); !errors.Is(err, queue.ErrFull) {
		t.Errorf("the fifth of four: %v, want ErrFull", err)
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
