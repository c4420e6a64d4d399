package admin

import (
	"net/http"

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
