package admin

import (
	"net/http"

	"shardway/internal/problem"
)

// plan responds with the moves of the next map.
func (s *Server) plan(w http.ResponseWriter, r *http.Request) error {
	if s.api.Plan == nil {
		return problem.New(problem.NotFound, "this node plans nothing")
	}
	if _, err := query(r); err != nil {
		return err
	}
	plan, err := s.api.Plan.Plan(r.Context())
	if err != nil {
		return err
	}
	return writeJSON(w, plan)
}
