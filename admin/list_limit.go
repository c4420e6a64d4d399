package admin

import (
	"net/http"
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
func (s *Server) limitLists(endpoint endpoint) endpoint {
	return func(w http.ResponseWriter, r *http.Request) error {
		if !s.lists.Acquire(r.RemoteAddr) {
			return &problem.Problem{Code: problem.NotReady, Detail: "too many read such lists of this node: ask again in a moment", RetryAfter: listRetryAfter}
		}
		defer s.lists.Release(r.RemoteAddr)
		return endpoint(w, r)
	}
}
