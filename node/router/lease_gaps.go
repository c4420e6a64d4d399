package router

import (
	"sync"
	"time"
)

// leaseGaps sums the time in which a node had no lease. It uses the ends of the leases, so each gap counts in full,
// even a gap that is too short to be observed. Its methods may be called from any goroutine.
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
	gaps := &leaseGaps{}
	gaps.mu.from = now
	return gaps
}

// setLease records that at time now, the end of the lease changed to end. An end in the past, such as
// zero, means no lease. now must not decrease between calls.
func (g *leaseGaps) setLease(now, end time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.mu.total += max(now-g.mu.from, 0)
	g.mu.from = max(end, now)
}

// total returns the time without a lease until now.
func (g *leaseGaps) total(now time.Duration) time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.mu.total + max(now-g.mu.from, 0)
}
