package node

import (
	"sync"
	"time"
)

// absence adds up the time in which a node had no lease. It goes by the ends of
// the leases: a gap counts in full however short it is, and whoever looked.
type leaseGaps struct {
	mu struct {
		sync.Mutex
		total time.Duration // of what is over
		// from is since when there is no lease, or the end of the one that is held.
		from time.Duration
	}
}

// newAbsence begins to count at now, without a lease.
func newLeaseGaps(now time.Duration) *leaseGaps {
	a := &leaseGaps{}
	a.mu.from = now
	return a
}

// lease tells that from now on the lease ends at until; what lies in the past, as
// zero does, is none. now does not run backwards.
func (a *leaseGaps) setLease(now, end time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.mu.total += max(now-a.mu.from, 0)
	a.mu.from = max(end, now)
}

// sum returns the time without a lease up to now.
func (a *leaseGaps) total(now time.Duration) time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.mu.total + max(now-a.mu.from, 0)
}
