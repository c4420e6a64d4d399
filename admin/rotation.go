package admin

import (
	"net/http"

	"shardway/internal/problem"
)

// rotate replaces the secret. It has no arguments: a node generates the secret, which never passes
// an admin port.
func (s *Server) rotate(w http.ResponseWriter, r *http.Request) error {
	if s.api.Rotation == nil {
		return problem.New(problem.NotFound, "this node cannot rotate its secret")
	}
	if _, err := readArguments(r, nil, `{}`); err != nil {
		return err
	}
	ctx, cancel := actionContext(r.Context(), w)
	defer cancel()
	done, err := s.api.Rotation.Rotate(ctx, admissionOf(r).caller.String())
	if err != nil {
		return err
	}
	return writeJSON(w, done)
}
