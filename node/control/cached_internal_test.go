package control

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// Requests for the loads of the cluster share one response for a second, also if the first caller has left. Once, each request, of pages
// and scripts at the same time, queried every node.
func TestCachedIsSharedForASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewCached[int]()
		asked := 0
		ask := func(ctx context.Context) int {
			asked++
			select {
			case <-time.After(300 * time.Millisecond):
			case <-ctx.Done():
				t.Errorf("who asks was cut off: %v", ctx.Err())
			}
			return asked
		}
		first, leave := context.WithCancel(t.Context())
		var asking sync.WaitGroup
		take := func(ctx context.Context, want int) {
			asking.Go(func() {
				if got := c.Get(ctx, time.Second, ask); got != want {
					t.Errorf("answer %d, want %d", got, want)
				}
			})
			synctest.Wait()
		}
		take(first, 1)
		for range 20 {
			take(t.Context(), 1)
		}
		take(first, 0) // does not wait for the result
		leave()
		asking.Wait()
		time.Sleep(CacheTime - time.Nanosecond)
		if got := c.Get(t.Context(), time.Second, ask); got != 1 {
			t.Errorf("answer %d within a second, want the first", got)
		}
		time.Sleep(time.Nanosecond)
		if got := c.Get(t.Context(), time.Second, ask); got != 2 || asked != 2 {
			t.Errorf("answer %d after a second, of %d, want the second", got, asked)
		}
	})
}

// A call returns after its timeout at the latest.
func TestCachedCallEndsAfterItsTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewCached[error]()
		began := time.Now()
		err := c.Get(t.Context(), time.Second, func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		})
		if took := time.Since(began); took != time.Second || err == nil {
			t.Errorf("it took %v and came to %v", took, err)
		}
	})
}
