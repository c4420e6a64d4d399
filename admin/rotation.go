package admin

import (
	"net/http"

	"shardway/internal/problem"
)

// rotate replaces the secret. The secret is no argument: a node generates it, and it never passes an admin
// port.
func (s *Server) rotate(w http.ResponseWriter, r *http.Request) error {
	if s.api.Rotation == nil {
		return problem.New(problem.NotFound, "this node cannot rotate its secret")
	}
	args, err := readArguments(r, []string{"reason"}, `{}`)
	if err == nil {
		err = checkReason(args.Reason)
	}
	if err != nil {
		return err
	}
	admissionOf(r).reason = args.Reason
	ctx, cancel := actionContext(r.Context(), w)
	defer cancel()
	done, err := s.api.Rotation.Rotate(ctx, admissionOf(r).caller.String())
	if err != nil {
		return err
	}
	return writeJSON(w, done)
}
