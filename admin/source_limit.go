package admin

import (
	"net/http"
	"net/netip"
	"sync"
	"time"

	"shardway/internal/problem"
)

// Limits on concurrent responses with a list of all shards. With the maximum number of shards, such
// a response occupies 8 MB until the client has received it.
const (
	maxLists          = 32
	maxListsPerSource = 8
	listRetryAfter    = time.Second
)

// limitLists limits the number of concurrent requests to an endpoint with a large response.
func (s *Server) limitLists(e endpoint) endpoint {
	return func(w http.ResponseWriter, r *http.Request) error {
		if !s.lists.acquire(r.RemoteAddr) {
			return &problem.Problem{Code: problem.NotReady, Detail: "too many read such lists of this node: ask again in a moment", RetryAfter: listRetryAfter}
		}
		defer s.lists.release(r.RemoteAddr)
		return e(w, r)
	}
}

// sourceLimit limits concurrent requests in total and per source, because otherwise one source could use up
// the total. A source is an IPv4 address or an IPv6 /64 network.
type sourceLimit struct {
	max, maxPerSource int

	// mu protects the following fields.
	mu       sync.Mutex
	count    int
	bySource map[netip.Addr]int
}

// acquire counts a request from a remote address. It returns false if a limit is reached;
// otherwise the caller must call release.
func (l *sourceLimit) acquire(remote string) bool {
	source := sourceOf(remote)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.count >= l.max || l.bySource[source] >= l.maxPerSource {
		return false
	}
	if l.bySource == nil {
		l.bySource = make(map[netip.Addr]int)
	}
	l.bySource[source]++
	l.count++
	return true
}

// release ends a request for which acquire returned true.
func (l *sourceLimit) release(remote string) {
	source := sourceOf(remote)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.count--
	if l.bySource[source]--; l.bySource[source] == 0 {
		delete(l.bySource, source)
	}
}
