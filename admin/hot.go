package admin

import (
	"context"
	"net/http"

	"shardway/admin/api"
	"shardway/internal/problem"
)

func (s *Server) hot(w http.ResponseWriter, r *http.Request) error {
	if s.api.Hot == nil {
		return problem.New(problem.NotFound, "this node counts no load")
	}
	if _, err := query(r); err != nil {
		return err
	}
	return writeJSON(w, s.api.Hot.Hot(r.Context()))
}

// Hot returns the load of the cluster.
func (c *Client) Hot(ctx context.Context) (api.HotList, error) {
	return getJSON[api.HotList](ctx, c, "/v1/hot", nil)
}
