package admin

import (
	"net/http"
	"net/netip"
	"sync"
	"time"

	"shardway/internal/problem"
)

// Bounds on those who read a list of all shards: with most shards that there may be it takes
// eight megabytes, until its client has all of it.
const (
	maxLists     = 32
	listsFromOne = 8
	listRetry    = time.Second
)

// long is an endpoint whose answer is long.
func (s *Server) long(e endpoint) endpoint {
	return func(w http.ResponseWriter, r *http.Request) error {
		if !s.lists.take(r.RemoteAddr) {
			return &problem.Problem{Code: problem.NotReady, Detail: "too many read such lists of this node: ask again in a moment", RetryAfter: listRetry}
		}
		defer s.lists.leave(r.RemoteAddr)
		return e(w, r)
	}
}

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
