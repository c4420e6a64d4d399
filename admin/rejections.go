package admin

import (
	"net"
	"net/netip"
	"sync"
	"time"
)

// Bounds on refused requests: beyond failuresMost from one address in a
// failureSpan it is told to wait, and the log is spared.
const (
	maxRejectionsPerSource = 10
	rejectionWindow        = time.Minute
	maxTrackedSources      = 4096
	// failuresAll is how many there may be in all until every other one is told to wait: one
	// IPv6 site has 65 536 networks.
	maxRejections = 20 * maxRejectionsPerSource
)

// failures counts refused requests by address. A right one always passes: who
// sits beside an attacker is not locked out by him.
type rejectionLimit struct {
	mu       sync.Mutex
	bySource map[netip.Addr]*rejections
	total    rejections // that were not told to wait
}

type rejections struct {
	since time.Time
	count int
}

// add counts a failure. Wait is how long its address has to, zero while it may
// go on.
func (f *rejectionLimit) add(remote string, now time.Time) (wait time.Duration) {
	addr := sourceOf(remote)
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

// origin is what is counted as one: an IPv4 address, or an IPv6 network of 64
// bits, all of which one host can have.
func sourceOf(remote string) netip.Addr {
	host, _, err := net.SplitHostPort(remote)
	if err != nil {
		return netip.Addr{}
	}
	a, err := netip.ParseAddr(host)
	if err != nil {
		return netip.Addr{}
	}
	if a = a.Unmap().WithZone(""); a.Is4() {
		return a
	}
	p, err := a.Prefix(64)
	if err != nil {
		return a
	}
	return p.Addr()
}
