package rotation

import (
	"context"
	"encoding/json"
	"fmt"

	"shardway/admin/api"
	"shardway/internal/secret"
)

// Proven is what two nodes tell each other about secrets: the words, and the
// evidence which secrets their sender has. That a stream is believed is not
// enough: with certificates of the user's own, a node's key opens streams and is
// no secret.
type Proven struct {
	Body   []byte        `json:"body,omitempty"`
	Proofs secret.Proofs `json:"proofs,omitempty"`
}

// The roles of what is proven, so that no question passes for an answer.
func asking(what string) string    { return "ask " + what }
func answering(what string) string { return "answer " + what }

// askProven asks a node something about secrets, with the evidence that this one
// has its own, and returns those of them that the other one has shown. Compose
// makes the words for the stream with that binding.
func (r *Rotation) askProven(ctx context.Context, node, what string, compose func(binding []byte) (any, error), value any) (secret.List, error) {
	var own secret.List
	var stream []byte
	raw, err := r.o.Cluster.Ask(ctx, node, what, func(binding []byte) (Proven, error) {
		words, err := compose(binding)
		if err != nil {
			return Proven{}, err
		}
		own, stream = r.o.Secrets.List(), binding
		return prove(own, binding, asking(what), words)
	})
	if err != nil {
		return nil, err
	}
	var p Proven
	if err = json.Unmarshal(raw, &p); err != nil {
		return nil, fmt.Errorf("node: reply of %q: %w", node, err)
	}
	for _, s := range r.o.Secrets.List() { // what was asked for may have changed them
		own = own.With(s)
	}
	shown := own.VerifyProofs(p.Proofs, stream, answering(what), p.Body)
	if len(shown) == 0 {
		return nil, errUnproven
	}
	if err = json.Unmarshal(p.Body, value); err != nil {
		return nil, fmt.Errorf("node: reply of %q: %w", node, err)
	}
	return shown, nil
}

func prove(l secret.List, binding []byte, role string, words any) (Proven, error) {
	b, err := json.Marshal(words)
	if err != nil {
		return Proven{}, fmt.Errorf("node: %s: %w", role, err)
	}
	return Proven{Body: b, Proofs: l.Prove(binding, role, b)}, nil
}

// Answer answers a question about secrets that a node has asked on the stream of
// that binding, if it has shown one of this node's. The error of binding is why
// nobody can show a secret there.
func (r *Rotation) Answer(ctx context.Context, from, what string, p Proven, binding func() ([]byte, error)) (any, error) {
	k := r.o.Secrets
	if k == nil {
		return nil, ErrNoSecrets
	}
	stream, err := binding()
	if err != nil {
		return nil, err
	}
	shown := k.List().VerifyProofs(p.Proofs, stream, asking(what), p.Body)
	if len(shown) == 0 {
		return nil, errUnproven
	}
	words, err := r.heed(ctx, from, what, p.Body, shown, stream)
	if err != nil {
		return nil, err
	}
	return prove(k.List(), stream, answering(what), words)
}

// heed does what was asked for by somebody who has shown some secrets.
func (r *Rotation) heed(ctx context.Context, from, what string, body []byte, shown secret.List, binding []byte) (any, error) {
	if what == AskStep {
		var s Step
		if err := json.Unmarshal(body, &s); err != nil {
			return nil, fmt.Errorf("node: question not understood: %w", err)
		}
		return r.take(from, s, shown, binding)
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

// current returns an error unless a node has shown the newest of these secrets,
// or nothing says which one that is: whoever has an older one alone may be whom a
// rotation is to shut out.
func current(own, shown secret.List, node string) error {
	newest, ok := own.Newest()
	if ok && !shown.Has(newest) || !ok && len(shown) < len(own) {
		return fmt.Errorf("%w: node %q does not have the newest secret of this one", api.ErrRefused, node)
	}
	return nil
}
