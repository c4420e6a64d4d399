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
	failuresMost  = 10
	failureSpan   = time.Minute
	failuresKnown = 4096
	// failuresAll is how many there may be in all until every other one is told to wait: one
	// IPv6 site has 65 536 networks.
	failuresAll = 20 * failuresMost
)

// failures counts refused requests by address. A right one always passes: who
// sits beside an attacker is not locked out by him.
type failures struct {
	mu   sync.Mutex
	seen map[netip.Addr]*failing
	all  failing // that were not told to wait
}

type failing struct {
	since time.Time
	n     int
}

// add counts a failure. Wait is how long its address has to, zero while it may
// go on.
func (f *failures) add(remote string, now time.Time) (wait time.Duration) {
	addr := origin(remote)
	f.mu.Lock()
	defer f.mu.Unlock()
	x := f.seen[addr]
	if x == nil || now.Sub(x.since) >= failureSpan {
		if f.seen == nil || len(f.seen) >= failuresKnown {
			f.seen = make(map[netip.Addr]*failing)
		}
		x = &failing{since: now}
		f.seen[addr] = x
	}
	if now.Sub(f.all.since) >= failureSpan {
		f.all = failing{since: now}
	}
	switch x.n++; {
	case x.n > failuresMost:
		return x.since.Add(failureSpan).Sub(now)
	case f.all.n >= failuresAll:
		return f.all.since.Add(failureSpan).Sub(now)
	}
	f.all.n++
	return 0
}

// origin is what is counted as one: an IPv4 address, or an IPv6 network of 64
// bits, all of which one host can have.
func origin(remote string) netip.Addr {
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
