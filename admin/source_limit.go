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
	maxLists          = 32
	maxListsPerSource = 8
	listRetryAfter    = time.Second
)

// long is an endpoint whose answer is long.
func (s *Server) limitLists(e endpoint) endpoint {
	return func(w http.ResponseWriter, r *http.Request) error {
		if !s.lists.acquire(r.RemoteAddr) {
			return &problem.Problem{Code: problem.NotReady, Detail: "too many read such lists of this node: ask again in a moment", RetryAfter: listRetryAfter}
		}
		defer s.lists.release(r.RemoteAddr)
		return e(w, r)
	}
}

// places bounds those who wait, and of them those from one address: whoever takes all that
// he can get takes none from others.
type sourceLimit struct {
	max, maxPerSource int

	mu       sync.Mutex
	count    int
	bySource map[netip.Addr]int
}

// take takes a place for who comes from an address, if there is one.
func (l *sourceLimit) acquire(remote string) bool {
	from := sourceOf(remote)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.count >= l.max || l.bySource[from] >= l.maxPerSource {
		return false
	}
	if l.bySource == nil {
		l.bySource = make(map[netip.Addr]int)
	}
	l.bySource[from]++
	l.count++
	return true
}

// leave gives it back.
func (l *sourceLimit) release(remote string) {
	from := sourceOf(remote)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.count--
	if l.bySource[from]--; l.bySource[from] == 0 {
		delete(l.bySource, from)
	}
}
