package router

import (
	"sync"
	"time"
)

// leaseGaps sums the time in which a node had no lease. It uses the ends of the leases, so each gap
// counts in full, also a gap that is too short to be observed. Its methods may be called from any
// goroutine.
type leaseGaps struct {
	mu struct {
		sync.Mutex
		total time.Duration // gaps that have ended
		// from is the end of the current lease, or the start of the current gap.
		from time.Duration
	}
}

// newLeaseGaps starts to count at now, without a lease.
func newLeaseGaps(now time.Duration) *leaseGaps {
	a := &leaseGaps{}
	a.mu.from = now
	return a
}

// setLease records that at time now, the end of the lease changed to end. An end in the past, such as
// zero, means no lease. now must not decrease between calls.
func (a *leaseGaps) setLease(now, end time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.mu.total += max(now-a.mu.from, 0)
	a.mu.from = max(end, now)
}

// total returns the time without a lease until now.
func (a *leaseGaps) total(now time.Duration) time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.mu.total + max(now-a.mu.from, 0)
}
