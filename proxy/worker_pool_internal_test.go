package proxy

import (
	"context"
	"testing"
	"testing/synctest"
)

// TestWorkerPoolReusesIdleWorker has three connections carried, the third when the first is done.
func TestWorkerPoolReusesIdleWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		next := make(chan chan struct{}, 3)
		carried := 0
		w := newWorkerPool(func(job) { carried++; <-<-next })
		first, second, third := make(chan struct{}), make(chan struct{}), make(chan struct{})
		next <- first
		w.submit(job{})
		synctest.Wait()
		next <- second
		w.submit(job{})
		synctest.Wait()
		close(first)
		synctest.Wait()
		if n := w.idle.Load(); n != 1 {
			t.Fatalf("%d goroutines are free, want 1", n)
		}
		next <- third
		w.submit(job{})
		synctest.Wait()
		if n := w.idle.Load(); n != 0 || carried != 3 {
			t.Errorf("%d goroutines are free and %d connections were carried, want 0 and 3: the free one takes the next", n, carried)
		}
		close(second)
		close(third)
		w.close() // returns, and leaves none: the bubble would say so
	})
}

// TestWorkerPoolKeepsLimitedWorkers has more connections end than there are places.
func TestWorkerPoolKeepsLimitedWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		end := make(chan struct{})
		w := newWorkerPool(func(job) { <-end })
		for range maxIdleWorkers + 10 {
			w.submit(job{})
		}
		close(end)
		synctest.Wait()
		if n := w.idle.Load(); n != maxIdleWorkers {
			t.Errorf("%d goroutines are free, want %d", n, maxIdleWorkers)
		}
		w.close()
	})
}

func TestLifetimeEndsAllWaiters(t *testing.T) {
	l := &lifetime{within: t.Context()}
	before := l.context()
	if before.Err() != nil || l.context() != before {
		t.Error("the context of a connection that lives has ended, or is another one each time")
	}
	l.end()
	l.end()
	if before.Err() == nil {
		t.Error("who waits is not told of the end")
	}
	l = &lifetime{within: t.Context()}
	l.end()
	if l.context().Err() == nil {
		t.Error("who begins to wait after the end is not told of it")
	}
	outer, stop := context.WithCancel(t.Context())
	l = &lifetime{within: outer}
	stop()
	if l.context().Err() == nil {
		t.Error("who waits is not told that the server's life is over")
	}
}
