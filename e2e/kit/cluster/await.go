//go:build linux

package cluster

import (
	"testing"
	"time"
)

// AwaitTimeout is the default timeout of Await. It is so long that only a broken cluster reaches it.
const AwaitTimeout = 40 * time.Second

// Await calls check repeatedly until it returns nil. After AwaitTimeout it fails the test with the
// description of the condition and the last error of check.
func Await(tb testing.TB, condition string, check func() error) {
	tb.Helper()
	AwaitFor(tb, AwaitTimeout, condition, check)
}

// AwaitFor is like Await with another timeout, for slow operations.
func AwaitFor(tb testing.TB, timeout time.Duration, condition string, check func() error) {
	tb.Helper()
	if err := poll(tb, timeout, check); err != nil {
		tb.Fatalf("%s: %v", condition, err)
	}
}

// pollInterval is the interval between two checks of a condition.
const pollInterval = 20 * time.Millisecond

// poll calls check every pollInterval until it returns nil. After the timeout it returns the last error.
func poll(tb testing.TB, timeout time.Duration, check func() error) error {
	tb.Helper()
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	deadline := time.Now().Add(timeout)
	for {
		err := check()
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
