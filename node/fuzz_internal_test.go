package node

import (
	"bytes"
	"context"
	"encoding/json"
	"path/filepath"
	"testing"
	"time"

	"shardway/internal/secret"
	"shardway/node/control"
	"shardway/node/rotation"
)

// FuzzControl sends a node rotation requests of another process. The node answers each without a crash, also when the process has shown the
// secret. It keeps one secret, and reveals none.
func FuzzControl(f *testing.F) {
	known := secret.Generate(time.Unix(9e8, 0))
	next := secret.Generate(time.Unix(1e9, 0))
	binding := make([]byte, 32)
	wrapped, err := known.Wrap(binding, []byte(next.Line()))
	if err != nil {
		f.Fatal(err)
	}
	for _, q := range []rotation.Step{
		{Kind: "show"},
		{Kind: "install", Fingerprint: next.Fingerprint(), WrappingSecret: known.Fingerprint(), Wrapped: wrapped},
		{Kind: "install", Fingerprint: next.Fingerprint(), WrappingSecret: known.Fingerprint(), Wrapped: []byte("x")},
		{Kind: "use", Fingerprint: known.Fingerprint()},
		{Kind: "retire", Fingerprint: known.Fingerprint()},
		{Kind: "give", Fingerprint: known.Fingerprint()},
	} {
		b, err := json.Marshal(q)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b, true)
		f.Add(b, false)
	}
	f.Add([]byte(`{"do":1}`), true)
	path := filepath.Join(f.TempDir(), "secret")
	f.Fuzz(func(t *testing.T, b []byte, shows bool) {
		if err := secret.WriteFile(path, secret.List{known}); err != nil {
			t.Fatal(err)
		}
		k, err := secret.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		n := &Node{rotation: rotation.New(rotation.Options{Secrets: k})}
		q := control.Request{Kind: rotation.AskStep, Proven: rotation.Proven{Body: b}}
		if shows {
			q.Proven.Proofs = k.List().Prove(binding, "ask "+rotation.AskStep, b)
		}
		answer := answerOf(t.Context(), n, control.Caller{Node: "x", Binding: func() ([]byte, error) { return binding, nil }}, q)
		if bytes.Contains(answer, []byte("sw1_")) {
			t.Fatalf("%s gives a secret away: %s", b, answer)
		}
		if len(k.List()) == 0 || !shows && !k.List().Equal(secret.List{known}) {
			t.Fatalf("%s makes it %v", b, k.List())
		}
	})
}

// answerOf returns the bytes that are sent as the answer to q.
func answerOf(ctx context.Context, n *Node, from control.Caller, q control.Request) []byte {
	b, _ := json.Marshal(q)
	b, _ = json.Marshal(control.NewServer(n.handlers(), n.log).Answer(ctx, from, b))
	return b
}
