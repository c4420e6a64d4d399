package queue_test

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"shardway/queue"
)

// In a synctest bubble time advances only when all goroutines are blocked, so a lost wake-up would
// show as a request that timed out.
func TestNoWakeUpIsLost(t *testing.T) {
	const requests, tables = 300, 200
	synctest.Test(t, func(t *testing.T) {
		q := queue.New(queue.Options{Batch: 7})
		var table atomic.Uint64
		var wg sync.WaitGroup
		start := time.Now()
		for i := range requests {
			wg.Go(func() {
				tk, err := q.Enter(uint32(i), 1)
				if err != nil {
					t.Errorf("Enter: %v", err)
					return
				}
				defer tk.Leave()
				for seen := uint64(0); seen < tables; {
					seen = table.Load()
					if seen == tables {
						return
					}
					if err := tk.Wait(nil, seen, 0); err != nil {
						t.Errorf("Wait(%d): %v", seen, err)
						return
					}
				}
			})
		}
		for g := range uint64(tables) {
			table.Store(g + 1)
			q.Wake(g + 1)
			if g%3 == 0 {
				runtime.Gosched()
			}
		}
		wg.Wait()
		if took := time.Since(start); took > time.Second {
			t.Errorf("took %v of virtual time", took)
		}
		if st := checkStats(t, q); st.Waiting != 0 || st.Bytes != 0 || st.Due != 0 || st.Dequeued != requests {
			t.Errorf("final stats: %+v", st)
		}
	})
}

// Clients that disconnect, back-offs, deadlines and new tables all happen concurrently. In the end the
// queue must be empty and its counters must add up.
func TestQueueIsEmptyAfterConcurrentEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := queue.New(queue.Options{Requests: 60, Bytes: 4000, Wait: 300 * time.Millisecond, Batch: 4, Pace: 5 * time.Millisecond})
		var table atomic.Uint64
		stop := make(chan struct{})
		go func() {
			for {
				select {
				case <-stop:
					return
				case <-time.After(3 * time.Millisecond):
					q.Wake(table.Add(1))
				}
			}
		}()
		var wg sync.WaitGroup
		for i := range uint64(200) {
			wg.Go(func() { client(t, q, &table, rand.New(rand.NewPCG(i, 1))) })
		}
		wg.Wait()
		close(stop)
		if st := checkStats(t, q); st.Waiting != 0 || st.Bytes != 0 || st.Due != 0 {
			t.Errorf("final stats: %+v", st)
		}
	})
}

// client sends requests that end in random ways.
func client(t *testing.T, q *queue.Queue, table *atomic.Uint64, rnd *rand.Rand) {
	t.Helper()
	for range 20 {
		time.Sleep(upTo(rnd, 30*time.Millisecond))
		tk, err := q.Enter(rnd.Uint32N(8), rnd.Int64N(200))
		if err != nil {
			if !errors.Is(err, queue.ErrFull) && !errors.Is(err, queue.ErrShardLimit) {
				t.Errorf("Enter: %v", err)
			}
			continue
		}
		entered := time.Now()
		done := make(chan struct{})
		disconnect := time.AfterFunc(upTo(rnd, 600*time.Millisecond), func() { close(done) })
		for range rnd.IntN(20) {
			seen := table.Load()
			time.Sleep(upTo(rnd, 8*time.Millisecond))
			if err = tk.Wait(done, seen, upTo(rnd, 20*time.Millisecond)-10*time.Millisecond); err != nil {
				break
			}
		}
		if waited := time.Since(entered); waited > 350*time.Millisecond {
			t.Errorf("waited %v, want up to 300ms", waited)
		}
		disconnect.Stop()
		tk.Leave()
	}
}

func upTo(rnd *rand.Rand, d time.Duration) time.Duration {
	return time.Duration(rnd.Int64N(int64(d)))
}

func TestQueueStartsNoGoroutines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := queue.New(queue.Options{Requests: 1000})
		done := make(chan struct{})
		for i := range 500 {
			tk := enter(t, q, uint32(i), 0)
			go func() {
				defer tk.Leave()
				for seen := uint64(0); tk.Wait(done, seen, 0) == nil; seen++ {
				}
			}()
		}
		q.Wake(1)
		time.Sleep(time.Second) // all tickets are released and wait again
		// Counted by creator: other tests and the runtime have goroutines, too.
		stacks := make([]byte, 4<<20)
		stacks = stacks[:runtime.Stack(stacks, true)]
		if n := bytes.Count(stacks, []byte("created by shardway/queue.")); n > 0 {
			t.Errorf("the queue started %d goroutines for 500 waiters", n)
		}
		if n := bytes.Count(stacks, []byte("created by shardway/queue_test.TestQueueStarts")); n < 500 {
			t.Errorf("found %d goroutines of 500 waiters: the test proves nothing", n)
		}
		close(done)
		synctest.Wait()
		if st := checkStats(t, q); st.Canceled != 500 {
			t.Errorf("final stats: %+v", st)
		}
	})
}

func BenchmarkEnterLeave(b *testing.B) {
	q := queue.New(queue.Options{})
	b.ReportAllocs()
	for b.Loop() {
		tk, err := q.Enter(1, 100)
		if err != nil {
			b.Fatal(err)
		}
		tk.Leave()
	}
}

// Each iteration replaces the table while 10,000 tickets wait: all of them are released and wait again.
func BenchmarkWake10000(b *testing.B) {
	const n = 10_000
	q := queue.New(queue.Options{Requests: n, Wait: time.Hour})
	done := make(chan struct{})
	var wg sync.WaitGroup
	var looked atomic.Int64
	for i := range n {
		tk, err := q.Enter(uint32(i), 0)
		if err != nil {
			b.Fatal(err)
		}
		wg.Go(func() {
			defer tk.Leave()
			for seen := uint64(0); tk.Wait(done, seen, 0) == nil; seen++ {
				looked.Add(1)
			}
		})
	}
	gen := uint64(0)
	for b.Loop() {
		gen++
		q.Wake(gen)
		for looked.Load() < int64(gen)*n {
			runtime.Gosched()
		}
	}
	close(done)
	wg.Wait()
}
