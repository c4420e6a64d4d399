package rotation

import (
	"context"
	"encoding/json"
	"fmt"

	"shardway/admin/api"
	"shardway/internal/secret"
)

// Proven is the content of a request or a response about secrets: the encoded content, and proofs of the
// secrets that the sender has. The authentication of the stream is not sufficient: if the operator uses own
// certificates, a holder of a node's key can open streams without having a secret.
type Proven struct {
	Body   []byte        `json:"body,omitempty"`
	Proofs secret.Proofs `json:"proofs,omitempty"`
}

// askRole and answering return the roles in the proofs of a request and of a response. With different roles,
// a request cannot be sent back as a response.
func askRole(what string) string    { return "ask " + what }
func answerRole(what string) string { return "answer " + what }

// askProven sends a request about secrets to a node, with proofs of all secrets of this node. It decodes the
// response into value, and returns the secrets of this node that the other node has proven to have. what is
// the kind of the request. compose creates the content of the request for the stream with the given channel
// binding.
func (r *Rotation) askProven(ctx context.Context, node, what string, compose func(binding []byte) (any, error), value any) (secret.List, error) {
	var own secret.List
	var stream []byte
	raw, err := r.o.Cluster.Ask(ctx, node, what, func(binding []byte) (Proven, error) {
		words, err := compose(binding)
		if err != nil {
			return Proven{}, err
		}
		own, stream = r.o.Secrets.List(), binding
		return prove(own, binding, askRole(what), words)
	})
	if err != nil {
		return nil, err
	}
	var p Proven
	if err = json.Unmarshal(raw, &p); err != nil {
		return nil, fmt.Errorf("node: reply of %q: %w", node, err)
	}
	for _, s := range r.o.Secrets.List() { // the rotation may have added secrets since the request was sent
		own = own.With(s)
	}
	shown := own.VerifyProofs(p.Proofs, stream, answerRole(what), p.Body)
	if len(shown) == 0 {
		return nil, errUnproven
	}
	if err = json.Unmarshal(p.Body, value); err != nil {
		return nil, fmt.Errorf("node: reply of %q: %w", node, err)
	}
	return shown, nil
}

// prove encodes words, and adds proofs of all secrets in l for the stream with the given binding.
func prove(l secret.List, binding []byte, role string, words any) (Proven, error) {
	b, err := json.Marshal(words)
	if err != nil {
		return Proven{}, fmt.Errorf("node: %s: %w", role, err)
	}
	return Proven{Body: b, Proofs: l.Prove(binding, role, b)}, nil
}

// Answer handles a request p about secrets from another node. The requester must have proven at least one
// of this node's secrets. binding returns the channel binding of the stream. It returns an error if the
// stream does not support proofs.
func (r *Rotation) Answer(ctx context.Context, from, what string, p Proven, binding func() ([]byte, error)) (any, error) {
	k := r.o.Secrets
	if k == nil {
		return nil, ErrNoSecrets
	}
	stream, err := binding()
	if err != nil {
		return nil, err
	}
	shown := k.List().VerifyProofs(p.Proofs, stream, askRole(what), p.Body)
	if len(shown) == 0 {
		return nil, errUnproven
	}
	words, err := r.handleRequest(ctx, from, what, p.Body, shown, stream)
	if err != nil {
		return nil, err
	}
	return prove(k.List(), stream, answerRole(what), words)
}

// handleRequest performs a request and returns the content of the response. shown contains the secrets of this node
// that the requester has proven to have.
func (r *Rotation) handleRequest(ctx context.Context, from, what string, body []byte, shown secret.List, binding []byte) (any, error) {
	if what == AskStep {
		var s Step
		if err := json.Unmarshal(body, &s); err != nil {
			return nil, fmt.Errorf("node: question not understood: %w", err)
		}
		return r.performStep(from, s, shown, binding)
	}
	var by string
	if err := json.Unmarshal(body, &by); err != nil {
		return nil, fmt.Errorf("node: question not understood: %w", err)
	}
	if !r.o.Cluster.Leads() {
		return nil, api.ErrNoLeader
	}
	if err := current(r.o.Secrets.List(), shown, from); err != nil {
		return nil, err
	}
	return r.Lead(ctx, by)
}

// current returns an error unless a node has proven (shown) the newest secret in own, or all of them if it
// is unknown which one is the newest. A holder of only an older secret may be the one that the rotation
// must exclude.
func current(own, shown secret.List, node string) error {
	newest, ok := own.Newest()
	if ok && !shown.Has(newest) || !ok && len(shown) < len(own) {
		return fmt.Errorf("%w: node %q does not have the newest secret of this one", api.ErrRefused, node)
	}
	return nil
}
