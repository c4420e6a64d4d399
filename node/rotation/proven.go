package rotation

import (
	"context"
	"encoding/json"
	"fmt"

	"shardway/admin/api"
	"shardway/internal/secret"
)

// Proven is the content of a request or a response about secrets: the encoded content, and proofs of the secrets
// that the sender has. The authentication of the stream is not sufficient: if the operator uses their own
// certificates, a holder of a node's key can open streams without having a secret.
type Proven struct {
	Body   []byte        `json:"body,omitempty"`
	Proofs secret.Proofs `json:"proofs,omitempty"`
}

// askRole and answerRole return the roles in the proofs of a request and of a response. With different roles,
// a request cannot be sent back as a response.
func askRole(kind string) string    { return "ask " + kind }
func answerRole(kind string) string { return "answer " + kind }

// askProven sends a request about secrets to a node, with proofs of all secrets of this node. It decodes the
// response into value, and returns the secrets of this node that the other node has proven to have. kind is
// the kind of the request. compose creates the content of the request for the stream with the given channel
// binding.
func (r *Rotation) askProven(ctx context.Context, node, kind string, compose func(binding []byte) (any, error), value any) (secret.List, error) {
	var own secret.List      // the secrets of this node
	var streamBinding []byte // the channel binding of the stream
	raw, err := r.options.Cluster.Ask(ctx, node, kind, func(binding []byte) (Proven, error) {
		content, err := compose(binding)
		if err != nil {
			return Proven{}, err
		}
		own, streamBinding = r.options.Secrets.List(), binding
		return prove(own, binding, askRole(kind), content)
	})
	if err != nil {
		return nil, err
	}
	var response Proven
	if err = json.Unmarshal(raw, &response); err != nil {
		return nil, fmt.Errorf("node: reply of %q: %w", node, err)
	}
	for _, s := range r.options.Secrets.List() { // the rotation may have added secrets since the request was sent
		own = own.With(s)
	}
	proven := own.VerifyProofs(response.Proofs, streamBinding, answerRole(kind), response.Body)
	if len(proven) == 0 {
		return nil, errUnproven
	}
	if err = json.Unmarshal(response.Body, value); err != nil {
		return nil, fmt.Errorf("node: reply of %q: %w", node, err)
	}
	return proven, nil
}

// prove encodes the content of a message, and adds proofs of all secrets in own for the stream with the given
// channel binding.
func prove(own secret.List, binding []byte, role string, content any) (Proven, error) {
	body, err := json.Marshal(content)
	if err != nil {
		return Proven{}, fmt.Errorf("node: %s: %w", role, err)
	}
	return Proven{Body: body, Proofs: own.Prove(binding, role, body)}, nil
}

// Answer handles a request p about secrets from another node. The requester must have proven at least one
// of this node's secrets. binding returns the channel binding of the stream. It returns an error if the
// stream does not support proofs.
func (r *Rotation) Answer(ctx context.Context, from, kind string, p Proven, binding func() ([]byte, error)) (any, error) {
	if r.options.Secrets == nil {
		return nil, ErrNoSecrets
	}
	streamBinding, err := binding()
	if err != nil {
		return nil, err
	}
	proven := r.options.Secrets.List().VerifyProofs(p.Proofs, streamBinding, askRole(kind), p.Body)
	if len(proven) == 0 {
		return nil, errUnproven
	}
	content, err := r.handleRequest(ctx, from, kind, p.Body, proven, streamBinding)
	if err != nil {
		return nil, err
	}
	return prove(r.options.Secrets.List(), streamBinding, answerRole(kind), content)
}

// handleRequest performs a request and returns the content of the response. proven contains the secrets of this
// node that the requester has proven to have.
func (r *Rotation) handleRequest(ctx context.Context, from, kind string, body []byte, proven secret.List, binding []byte) (any, error) {
	if kind == AskStep {
		var step Step
		if err := json.Unmarshal(body, &step); err != nil {
			return nil, fmt.Errorf("node: invalid request: %w", err)
		}
		return r.performStep(from, step, proven, binding)
	}
	var by string
	if err := json.Unmarshal(body, &by); err != nil {
		return nil, fmt.Errorf("node: invalid request: %w", err)
	}
	if !r.options.Cluster.Leads() {
		return nil, api.ErrNoLeader
	}
	if err := checkHasNewest(from, proven, r.options.Secrets.List()); err != nil {
		return nil, err
	}
	return r.Lead(ctx, by)
}

// checkHasNewest returns an error unless a node has proven to have the newest of this node's own secrets, or all of
// them if it is unknown which one is the newest. A holder of only an older secret may be the one that the
// rotation must exclude.
func checkHasNewest(node string, proven, own secret.List) error {
	newest, isNewestKnown := own.Newest()
	hasNewest := len(proven) >= len(own) // all of them
	if isNewestKnown {
		hasNewest = proven.Has(newest)
	}
	if !hasNewest {
		return fmt.Errorf("%w: node %q does not have the newest secret of this one", api.ErrRefused, node)
	}
	return nil
}
