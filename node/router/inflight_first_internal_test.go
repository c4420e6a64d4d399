package router

import (
	"slices"
	"testing"
	"time"
)

// Only the first end of an admitted request after AwaitFirstEnd is reported, and none after the shard was lost.
func TestFirstEndedRequestIsReportedOnce(t *testing.T) {
	t.Parallel()
	f := NewInFlight()
	var reported []time.Duration
	f.OnFirstEnded = func(ownedSince time.Duration) { reported = append(reported, ownedSince) }
	f.Begin(0)()
	f.AwaitFirstEnd(0, 5)
	f.Begin(0)
	f.endRefused(0)
	f.Begin(1)()
	if len(reported) != 0 {
		t.Errorf("reported %v without an admitted request for the shard", reported)
	}
	f.Begin(0)()
	f.Begin(0)()
	f.AwaitFirstEnd(0, 7)
	f.AwaitFirstEnd(0, 0)
	f.Begin(0)()
	if !slices.Equal(reported, []time.Duration{5}) {
		t.Errorf("reported %v, want 5 ns once", reported)
	}
	if f.Total() != 0 {
		t.Errorf("%d requests in flight", f.Total())
	}
}
