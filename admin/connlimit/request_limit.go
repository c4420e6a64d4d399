package connlimit

import (
	"net/netip"
	"sync"
)

// RequestLimit limits concurrent requests in total and per source, because otherwise one source could
// use up the total. A source is an IPv4 address or an IPv6 /64 network.
type RequestLimit struct {
	// Max and MaxPerSource are the limits. They must not change while requests are counted.
	Max, MaxPerSource int

	// mu protects the following fields.
	mu       sync.Mutex
	count    int
	bySource map[netip.Addr]int
}

// Acquire counts a request from a remote address. It returns false if a limit is reached;
// otherwise the caller must call Release.
func (l *RequestLimit) Acquire(remote string) bool {
	source := SourceOf(remote)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.count >= l.Max || l.bySource[source] >= l.MaxPerSource {
		return false
	}
	if l.bySource == nil {
		l.bySource = make(map[netip.Addr]int)
	}
	l.bySource[source]++
	l.count++
	return true
}

// Release stops counting a request. The caller must call it once for each Acquire that returned
// true.
func (l *RequestLimit) Release(remote string) {
	source := SourceOf(remote)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.count--
	if l.bySource[source]--; l.bySource[source] == 0 {
		delete(l.bySource, source)
	}
}
