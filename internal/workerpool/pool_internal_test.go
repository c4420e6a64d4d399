package workerpool

import (
	"testing"
	"testing/synctest"
)

// TestPoolReusesIdleGoroutine runs three jobs, and submits the third after the first has ended.
func TestPoolReusesIdleGoroutine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		next := make(chan chan struct{}, 3)
		started := 0
		w := New(func(struct{}) { started++; <-<-next })
		first, second, third := make(chan struct{}), make(chan struct{}), make(chan struct{})
		next <- first
		w.Submit(struct{}{})
		synctest.Wait()
		next <- second
		w.Submit(struct{}{})
		synctest.Wait()
		close(first)
		synctest.Wait()
		if n := w.idle.Load(); n != 1 {
			t.Fatalf("%d goroutines are idle, want 1", n)
		}
		next <- third
		w.Submit(struct{}{})
		synctest.Wait()
		if n := w.idle.Load(); n != 0 || started != 3 {
			t.Errorf("%d goroutines are idle and %d jobs were started, want 0 and 3: the idle one runs the next", n, started)
		}
		close(second)
		close(third)
		w.Close() // synctest fails if a goroutine is left
	})
}

// TestPoolLimitsIdleGoroutines ends more jobs than there may be idle goroutines.
func TestPoolLimitsIdleGoroutines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		end := make(chan struct{})
		w := New(func(struct{}) { <-end })
		for range maxIdle + 10 {
			w.Submit(struct{}{})
		}
		close(end)
		synctest.Wait()
		if n := w.idle.Load(); n != maxIdle {
			t.Errorf("%d goroutines are idle, want %d", n, maxIdle)
		}
		w.Close()
	})
}
