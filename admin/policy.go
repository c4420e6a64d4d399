package admin

import (
	"net/http"

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
