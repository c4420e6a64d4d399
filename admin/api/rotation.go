package api

import "context"

// RotationService serves POST /v1/rotate-secret.
type RotationService interface {
	// Rotate replaces the secret. It returns once every node has only the new secret. Its errors are
	// those of Cluster.Do. An error that wraps ErrRefused contains the missing nodes.
	Rotate(ctx context.Context, by string) (Rotation, error)
}

// Rotation is the response of POST /v1/rotate-secret.
type Rotation struct {
	Secret string   `json:"secret"` // fingerprint of the new secret
	Nodes  []string `json:"nodes"`  // nodes that have it, sorted
}
