package node

import (
	"bytes"
	"testing"
	"time"

	"shardway/internal/secret"
)

// Lines of two nodes about one key can be put together, those of two clusters
// cannot, and what was made of the secret goes with it.
func TestHashKeyIsTheClusters(t *testing.T) {
	now := time.Now()
	first, second := secret.Generate(now), secret.Generate(now.Add(time.Second))
	with := func(l ...secret.Secret) []byte { return hashKeyOf(l, "cluster").key }
	if a, b := with(first), with(first); len(a) != 32 || !bytes.Equal(a, b) {
		t.Errorf("one secret, two keys: %x %x", a, b)
	}
	if bytes.Equal(with(first), with(second)) || bytes.Equal(with(first), with()) {
		t.Error("two secrets have one key")
	}
	// Accepting a further secret changes nothing, using it does.
	if !bytes.Equal(with(first, second), with(first)) || !bytes.Equal(with(second, first), with(second)) {
		t.Error("the key is not that of the secret in use")
	}
	if a, b := hashKeyOf(nil, "a").key, hashKeyOf(nil, "b").key; len(a) != 32 || bytes.Equal(a, b) {
		t.Errorf("clusters without a secret have the keys %x %x", a, b)
	}
}
