package admin

import (
	"context"
	"net/http"

	"shardway/admin/api"
	"shardway/internal/problem"
)

func (s *Server) owned(w http.ResponseWriter, r *http.Request) error {
	if s.api.Owned == nil {
		return problem.New(problem.NotFound, "this node owns no shards")
	}
	if _, err := query(r); err != nil {
		return err
	}
	list, err := s.api.Owned.Held(r.Context())
	if err != nil {
		return err
	}
	return writeJSON(w, list)
}

// Owned returns the shards of the app of the node.
func (c *Client) Owned(ctx context.Context) (api.OwnedList, error) {
	return getJSON[api.OwnedList](ctx, c, "/v1/owned", nil)
}
