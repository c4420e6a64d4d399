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
	since time.Time // start of the window
	count int
}

// isOver reports whether the window has ended.
func (x *rejections) isOver(now time.Time) bool { return now.Sub(x.since) >= rejectionWindow }

// remaining returns the time until the end of the window.
func (x *rejections) remaining(now time.Time) time.Duration {
	return x.since.Add(rejectionWindow).Sub(now)
}

// Add counts a rejected request. wait is how long the source should wait before the next request;
// zero means that no limit is reached.
func (f *RejectionLimit) Add(remote string, now time.Time) (wait time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	ofSource := f.windowLocked(connlimit.SourceOf(remote), now)
	if f.total.isOver(now) {
		f.total = rejections{since: now}
	}
	ofSource.count++
	if ofSource.count > maxRejectionsPerSource {
		return ofSource.remaining(now)
	}
	if f.total.count >= maxRejections {
		return f.total.remaining(now)
	}
	f.total.count++
	return 0
}

// windowLocked returns the rejections of a source in its current window. It starts a window if there
// is none. If too many sources are tracked, it forgets all of them. The caller must hold f.mu.
func (f *RejectionLimit) windowLocked(source netip.Addr, now time.Time) *rejections {
	ofSource := f.bySource[source]
	if ofSource != nil && !ofSource.isOver(now) {
		return ofSource
	}
	if f.bySource == nil || len(f.bySource) >= maxTrackedSources {
		f.bySource = make(map[netip.Addr]*rejections)
	}
	ofSource = &rejections{since: now}
	f.bySource[source] = ofSource
	return ofSource
}
