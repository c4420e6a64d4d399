package admin

import (
	"net/http"

	"shardway/admin/api"
	"shardway/internal/problem"
)

// drain starts a drain, or returns its progress.
func (s *Server) drain(w http.ResponseWriter, r *http.Request) error {
	if r.Method == http.MethodPost {
		return s.actionEndpoint(api.Drain)(w, r)
	}
	if s.api.Drain == nil {
		return problem.New(problem.NotFound, "this node does not know how far drains are")
	}
	values, err := query(r, "node")
	if err != nil {
		return err
	}
	if values.get("node") == "" {
		return missing("node", "say which node, as in ?node=n3")
	}
	state, err := s.api.Drain.DrainState(r.Context(), values.get("node"))
	if err != nil {
		return err
	}
	return writeJSON(w, state)
}
