//go:build linux

package cluster

import (
	"testing"
	"time"
)

// AwaitTimeout is the timeout of every wait. Only a broken cluster reaches it.
const AwaitTimeout = 40 * time.Second

// Await polls until cond returns nil. After Patience it fails the test with what and the
// last error.
func Await(tb testing.TB, condition string, cond func() error) {
	tb.Helper()
	AwaitFor(tb, AwaitTimeout, condition, cond)
}

// AwaitFor is Await with another timeout, for slow operations.
func AwaitFor(tb testing.TB, timeout time.Duration, condition string, cond func() error) {
	tb.Helper()
	if err := poll(tb, timeout, cond); err != nil {
		tb.Fatalf("%s: %v", condition, err)
	}
}

func poll(tb testing.TB, timeout time.Duration, cond func() error) error {
	tb.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	deadline := time.Now().Add(timeout)
	for {
		err := cond()
		if err == nil {
			return nil
		}
		if time.Now().After(deadline) {
			return err
		}
		select {
		case <-tick.C:
		case <-tb.Context().Done():
			return tb.Context().Err()
		}
	}
}
