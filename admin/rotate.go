package admin

import (
	"context"
	"net/http"

	"shardway/internal/problem"
)

// Rotator replaces the secret of a cluster on all of its nodes. A Cluster that
// is one too serves POST /v1/rotate.
type RotateAPI interface {
	// Rotate returns once every node has the new secret and no other. Its errors
	// are those of Cluster.Do; one that is ErrRefused names who is missing.
	Rotate(ctx context.Context, by string) (Rotation, error)
}

// Rotation is the answer of POST /v1/rotate.
type Rotation struct {
	Secret string   `json:"secret"` // fingerprint of the new one
	Nodes  []string `json:"nodes"`  // that have it, sorted
}

// rotate has the secret replaced. It takes no arguments: the secret is made on a
// node and never passes an admin port.
func (s *Server) rotate(w http.ResponseWriter, r *http.Request) error {
	rotator, ok := s.cluster.(RotateAPI)
	if !ok {
		return problem.New(problem.NotFound, "this node cannot rotate its secret")
	}
	if _, err := readArguments(r, verbSpec{example: `{}`}); err != nil {
		return err
	}
	ctx, cancel := actionContext(r.Context(), w)
	defer cancel()
	done, err := rotator.Rotate(ctx, admissionOf(r).caller.String())
	if err != nil {
		return err
	}
	return writeJSON(w, done)
}
