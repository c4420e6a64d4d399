package admin

import (
	"context"
	"net/http"

	"shardway/internal/problem"
)

// RotateAPI is the optional interface of a Cluster that serves POST /v1/rotate-secret.
type RotateAPI interface {
	// Rotate replaces the secret. It returns once every node has only the new secret. Its errors are
	// those of Cluster.Do. An error that wraps ErrRefused contains the missing nodes.
	Rotate(ctx context.Context, by string) (Rotation, error)
}

// Rotation is the response of POST /v1/rotate-secret.
type Rotation struct {
	Secret string   `json:"secret"` // fingerprint of the new secret
	Nodes  []string `json:"nodes"`  // nodes that have it, sorted
}

// rotate replaces the secret. It has no arguments: a node generates the secret, which never passes
// an admin port.
func (s *Server) rotate(w http.ResponseWriter, r *http.Request) error {
	api, ok := s.cluster.(RotateAPI)
	if !ok {
		return problem.New(problem.NotFound, "this node cannot rotate its secret")
	}
	if _, err := readArguments(r, verbSpec{example: `{}`}); err != nil {
		return err
	}
	ctx, cancel := actionContext(r.Context(), w)
	defer cancel()
	done, err := api.Rotate(ctx, admissionOf(r).caller.String())
	if err != nil {
		return err
	}
	return writeJSON(w, done)
}
