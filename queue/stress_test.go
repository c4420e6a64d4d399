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

// Time stands still in a bubble while anything runs, so a lost wake-up would show
// as a request that timed out.
func TestNoWakeUpIsLost(t *testing.T) {
	const requests, tables = 300, 200
	synctest.Test(t, func(t *testing.T) {
		r := queue.New(queue.Options{Batch: 7})
		var table atomic.Uint64
		var wg sync.WaitGroup
		start := time.Now()
		for i := range requests {
			wg.Go(func() {
				tk, err := r.Enter(uint32(i), 1)
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
			r.Wake(g + 1)
			if g%3 == 0 {
				runtime.Gosched()
			}
		}
		wg.Wait()
		if took := time.Since(start); took > time.Second {
			t.Errorf("took %v of virtual time", took)
		}
		if st := balanced(t, r); st.Waiting != 0 || st.Bytes != 0 || st.Due != 0 || st.Dequeued != requests {
			t.Errorf("in the end: %+v", st)
		}
	})
}

// Everything at once: clients that go, back-offs, deadlines, tables that come all
// the time. Whatever happens, the room ends up empty and its books balance.
func TestRoomSurvivesEverythingAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := queue.New(queue.Options{Requests: 60, Bytes: 4000, Wait: 300 * time.Millisecond, Batch: 4, Pace: 5 * time.Millisecond})
		var table atomic.Uint64
		stop := make(chan struct{})
		go func() {
			for {
				select {
				case <-stop:
					return
				case <-time.After(3 * time.Millisecond):
					r.Wake(table.Add(1))
				}
			}
		}()
		var wg sync.WaitGroup
		for i := range uint64(200) {
			wg.Go(func() { client(t, r, &table, rand.New(rand.NewPCG(i, 1))) })
		}
		wg.Wait()
		close(stop)
		if st := balanced(t, r); st.Waiting != 0 || st.Bytes != 0 || st.Due != 0 {
			t.Errorf("in the end: %+v", st)
		}
	})
}

// client makes some requests, each with its own fate.
func client(t *testing.T, r *queue.Queue, table *atomic.Uint64, rnd *rand.Rand) {
	t.Helper()
	for range 20 {
		time.Sleep(upTo(rnd, 30*time.Millisecond))
		tk, err := r.Enter(rnd.Uint32N(8), rnd.Int64N(200))
		if err != nil {
			if !errors.Is(err, queue.ErrFull) && !errors.Is(err, queue.ErrShardLimit) {
				t.Errorf("Enter: %v", err)
			}
			continue
		}
		entered := time.Now()
		done := make(chan struct{})
		goes := time.AfterFunc(upTo(rnd, 600*time.Millisecond), func() { close(done) })
		for range rnd.IntN(20) {
			seen := table.Load()
			time.Sleep(upTo(rnd, 8*time.Millisecond))
			if err = tk.Wait(done, seen, upTo(rnd, 20*time.Millisecond)-10*time.Millisecond); err != nil {
				break
			}
		}
		if waited := time.Since(entered); waited > 350*time.Millisecond {
			t.Errorf("stayed %v, may wait 300ms", waited)
		}
		goes.Stop()
		tk.Leave()
	}
}

func upTo(rnd *rand.Rand, d time.Duration) time.Duration {
	return time.Duration(rnd.Int64N(int64(d)))
}

func TestWaitersCostNoGoroutineOfTheRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := queue.New(queue.Options{Requests: 1000})
		done := make(chan struct{})
		for i := range 500 {
			tk := enter(t, r, uint32(i), 0)
			go func() {
				defer tk.Leave()
				for seen := uint64(0); tk.Wait(done, seen, 0) == nil; seen++ {
				}
			}()
		}
		r.Wake(1)
		time.Sleep(time.Second) // all through the ramp, and waiting again
		// By who began them: other tests, and the runtime, have some of their own.
		stacks := make([]byte, 4<<20)
		stacks = stacks[:runtime.Stack(stacks, true)]
		if n := bytes.Count(stacks, []byte("created by shardway/queue.")); n > 0 {
			t.Errorf("the room began %d goroutines for 500 waiters", n)
		}
		if n := bytes.Count(stacks, []byte("created by shardway/queue_test.TestWaitersCost")); n < 500 {
			t.Errorf("%d of 500 waiters are seen: the test shows nothing", n)
		}
		close(done)
		synctest.Wait()
		if st := balanced(t, r); st.Canceled != 500 {
			t.Errorf("in the end: %+v", st)
		}
	})
}

func BenchmarkEnterLeave(b *testing.B) {
	r := queue.New(queue.Options{})
	b.ReportAllocs()
	for b.Loop() {
		tk, err := r.Enter(1, 100)
		if err != nil {
			b.Fatal(err)
		}
		tk.Leave()
	}
}

// One table replaced with a full room: all are awakened and wait again.
func BenchmarkWake10000(b *testing.B) {
	const n = 10_000
	r := queue.New(queue.Options{Requests: n, Wait: time.Hour})
	done := make(chan struct{})
	var wg sync.WaitGroup
	var looked atomic.Int64
	for i := range n {
		tk, err := r.Enter(uint32(i), 0)
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
		r.Wake(gen)
		for looked.Load() < int64(gen)*n {
			runtime.Gosched()
		}
	}
	close(done)
	wg.Wait()
}
