package admin

import (
	"net/netip"
	"sync"
)

// places bounds those who wait, and of them those from one address: whoever takes all that
// he can get takes none from others.
type places struct {
	most, fromOne int

	mu    sync.Mutex
	all   int
	taken map[netip.Addr]int
}

// take takes a place for who comes from an address, if there is one.
func (p *places) take(remote string) bool {
	from := origin(remote)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.all >= p.most || p.taken[from] >= p.fromOne {
		return false
	}
	if p.taken == nil {
		p.taken = make(map[netip.Addr]int)
	}
	p.taken[from]++
	p.all++
	return true
}

// leave gives it back.
func (p *places) leave(remote string) {
	from := origin(remote)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.all--
	if p.taken[from]--; p.taken[from] == 0 {
		delete(p.taken, from)
	}
}
