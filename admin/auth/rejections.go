package auth

import (
	"net/netip"
	"sync"
	"time"

	"shardway/admin/connlimit"
)

// Limits on rejected requests. A source with more than maxRejectionsPerSource in a rejectionWindow
// gets 429 for further rejected requests, which are not logged.
const (
	maxRejectionsPerSource = 10
	rejectionWindow        = time.Minute
	maxTrackedSources      = 4096
	// maxRejections is the limit for all sources together. One IPv6 site has 65,536 /64 networks, so
	// a limit per source is not enough.
	maxRejections = 20 * maxRejectionsPerSource
)

// RejectionLimit counts rejected requests by source. A valid request always passes, so an attacker
// cannot lock out other users of the same network.
type RejectionLimit struct {
	// mu protects the following fields.
	mu       sync.Mutex
	bySource map[netip.Addr]*rejections
	total    rejections // without requests that got 429
}

// rejections counts the rejected requests of one window.
type rejections struct {
	since time.Time
	count int
}

// Add counts a rejected request. wait is how long the source should wait before the next request;
// zero means that no limit is reached.
func (f *RejectionLimit) Add(remote string, now time.Time) (wait time.Duration) {
	addr := connlimit.SourceOf(remote)
	f.mu.Lock()
	defer f.mu.Unlock()
	x := f.bySource[addr]
	if x == nil || now.Sub(x.since) >= rejectionWindow {
		if f.bySource == nil || len(f.bySource) >= maxTrackedSources {
			f.bySource = make(map[netip.Addr]*rejections)
		}
		x = &rejections{since: now}
		f.bySource[addr] = x
	}
	if now.Sub(f.total.since) >= rejectionWindow {
		f.total = rejections{since: now}
	}
	switch x.count++; {
	case x.count > maxRejectionsPerSource:
		return x.since.Add(rejectionWindow).Sub(now)
	case f.total.count >= maxRejections:
		return f.total.since.Add(rejectionWindow).Sub(now)
	}
	f.total.count++
	return 0
}
