package admin

import (
	"net/http"

	"shardway/internal/problem"
)

// owned responds with the shards that the node serves.
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
