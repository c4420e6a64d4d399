package admin

import (
	"net/http"

	"shardway/internal/problem"
)

// running responds with the requests in flight on all nodes.
func (s *Server) running(w http.ResponseWriter, r *http.Request) error {
	if s.api.Running == nil {
		return problem.New(problem.NotFound, "this node asks no others")
	}
	if _, err := query(r); err != nil {
		return err
	}
	list := s.api.Running.Running(r.Context())
	list.Nodes, list.Unresponsive = nonNil(list.Nodes), nonNil(list.Unresponsive)
	return writeJSON(w, list)
}
