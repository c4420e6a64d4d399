package admin

import (
	"context"
	"net/http"

	"shardway/admin/api"
	"shardway/internal/problem"
)

func (s *Server) policy(w http.ResponseWriter, r *http.Request) error {
	if s.api.Policy == nil {
		return problem.New(problem.NotFound, "this node has no policy")
	}
	if _, err := query(r); err != nil {
		return err
	}
	return writeJSON(w, s.api.Policy.Policy())
}

// Policy returns the policy that the node has applied.
func (c *Client) Policy(ctx context.Context) (api.Policy, error) {
	return getJSON[api.Policy](ctx, c, "/v1/policy", nil)
}
