package admin

import (
	"net/http"

	"shardway/internal/problem"
)

// processes lists the processes of the app that the node runs.
func (s *Server) processes(w http.ResponseWriter, r *http.Request) error {
	if s.api.Processes == nil {
		return problem.New(problem.NotFound, "this node runs no processes of the app, because exec is not set")
	}
	if _, err := query(r); err != nil {
		return err
	}
	list := s.api.Processes.Processes()
	list.Processes, list.Failing = nonNil(list.Processes), nonNil(list.Failing)
	return writeJSON(w, list)
}
