package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"shardway/admin"
	"shardway/internal/secret"
	"shardway/peer"
)

// proven is what two nodes tell each other about secrets: the words, and the
// evidence which secrets their sender has. That a stream is believed is not
// enough: with certificates of the user's own, a node's key opens streams and is
// no secret.
type proven struct {
	Body   []byte        `json:"body,omitempty"`
	Proofs secret.Proofs `json:"proofs,omitempty"`
}

// The roles of what is proven, so that no question passes for an answer.
func asking(what string) string    { return "ask " + what }
func answering(what string) string { return "answer " + what }

// asker is who asks on a control stream.
type asker struct {
	node string
	// binding tells this stream from all others; see secret.Conn.
	binding func() ([]byte, error)
}

// bindingOf returns that of a stream, an error if no TLS is beneath it.
func bindingOf(c *peer.Conn) ([]byte, error) {
	b, ok := c.NetConn().(interface{ Binding() ([]byte, error) })
	if !ok {
		return nil, errors.New("node: the stream is not sealed, so nobody can show a secret on it")
	}
	return b.Binding()
}

var (
	errNoSecrets = fmt.Errorf("%w: this node has no secret file (--secret-file), so there is nothing to rotate", admin.ErrRefused)
	errUnproven  = fmt.Errorf("%w: the other node shows none of the secrets that this one has", admin.ErrRefused)
)

// askProven asks a node something about secrets, with the evidence that this one
// has its own, and returns those of them that the other one has shown. Compose
// makes the words for the stream with that binding.
func (n *Node) askProven(ctx context.Context, node, what string, compose func(binding []byte) (any, error), value any) (secret.List, error) {
	var own secret.List
	var binding []byte
	raw, err := n.converse(ctx, node, func(c *peer.Conn) (request, error) {
		var err error
		if binding, err = bindingOf(c); err != nil {
			return request{}, err
		}
		words, err := compose(binding)
		if err != nil {
			return request{}, err
		}
		own = n.o.Secrets.List()
		p, err := prove(own, binding, asking(what), words)
		return request{What: what, Proven: p}, err
	})
	if err != nil {
		return nil, err
	}
	var p proven
	if err = json.Unmarshal(raw, &p); err != nil {
		return nil, fmt.Errorf("node: reply of %q: %w", node, err)
	}
	for _, s := range n.o.Secrets.List() { // what was asked for may have changed them
		own = own.With(s)
	}
	shown := own.Proven(p.Proofs, binding, answering(what), p.Body)
	if len(shown) == 0 {
		return nil, errUnproven
	}
	if err = json.Unmarshal(p.Body, value); err != nil {
		return nil, fmt.Errorf("node: reply of %q: %w", node, err)
	}
	return shown, nil
}

func prove(l secret.List, binding []byte, role string, words any) (proven, error) {
	b, err := json.Marshal(words)
	if err != nil {
		return proven{}, fmt.Errorf("node: %s: %w", role, err)
	}
	return proven{Body: b, Proofs: l.Prove(binding, role, b)}, nil
}

// replyProven answers a question about secrets to who has shown one of them.
func (n *Node) replyProven(ctx context.Context, from asker, q request) (any, error) {
	k := n.o.Secrets
	if k == nil {
		return nil, errNoSecrets
	}
	binding, err := from.binding()
	if err != nil {
		return nil, err
	}
	shown := k.List().Proven(q.Proven.Proofs, binding, asking(q.What), q.Proven.Body)
	if len(shown) == 0 {
		return nil, errUnproven
	}
	words, err := n.heedProven(ctx, from.node, q, shown, binding)
	if err != nil {
		return nil, err
	}
	return prove(k.List(), binding, answering(q.What), words)
}

// heedProven does what was asked for by somebody who has shown some secrets.
func (n *Node) heedProven(ctx context.Context, from string, q request, shown secret.List, binding []byte) (any, error) {
	if q.What == askSecret {
		var s secretStep
		if err := json.Unmarshal(q.Proven.Body, &s); err != nil {
			return nil, fmt.Errorf("node: question not understood: %w", err)
		}
		return n.secretStep(from, s, shown, binding)
	}
	var by string
	if err := json.Unmarshal(q.Proven.Body, &by); err != nil {
		return nil, fmt.Errorf("node: question not understood: %w", err)
	}
	l := n.leadership()
	if l == nil {
		return nil, admin.ErrNoLeader
	}
	if err := current(n.o.Secrets.List(), shown, from); err != nil {
		return nil, err
	}
	return l.rotate(ctx, by)
}

// current returns an error unless a node has shown the newest of these secrets,
// or nothing says which one that is: whoever has an older one alone may be whom a
// rotation is to shut out.
func current(own, shown secret.List, node string) error {
	newest, ok := own.Newest()
	if ok && !shown.Has(newest) || !ok && len(shown) < len(own) {
		return fmt.Errorf("%w: node %q does not have the newest secret of this one", admin.ErrRefused, node)
	}
	return nil
}
