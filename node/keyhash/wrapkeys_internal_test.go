package keyhash

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"shardway/internal/secret"
)

// Suffixes of an earlier secret stay valid until the secret is removed from the file. All nodes with the same
// secrets use the same keys.
func TestWrapKeysFollowTheSecrets(t *testing.T) {
	now := time.Now()
	first, second := secret.Generate(now), secret.Generate(now.Add(time.Second))
	open := func(list ...secret.Secret) *Hasher {
		path := filepath.Join(t.TempDir(), "secret")
		if err := os.WriteFile(path, secret.List(list).Text(), 0o600); err != nil {
			t.Fatal(err)
		}
		store, err := secret.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		return &Hasher{options: Options{Secrets: store}}
	}
	if keys := (&Hasher{}).WrapKeys(); keys != nil {
		t.Errorf("keys without a secret: %x", keys)
	}
	before, during, after := open(first), open(second, first), open(second)
	if keys := during.WrapKeys(); len(keys) != 2 || !bytes.Equal(keys[1], before.WrapKeys()[0]) || !bytes.Equal(keys[0], after.WrapKeys()[0]) {
		t.Errorf("keys during a rotation: %x, before: %x, after: %x", keys, before.WrapKeys(), after.WrapKeys())
	}
	before.options.Secrets = after.options.Secrets
	if keys := before.WrapKeys(); len(keys) != 1 || !bytes.Equal(keys[0], second.WrapKey()) {
		t.Errorf("the secrets have changed, the keys are %x", keys)
	}
	if bytes.Equal(first.WrapKey(), second.WrapKey()) || bytes.Equal(first.WrapKey(), first.AccessKey()) || len(first.WrapKey()) != 32 {
		t.Error("two purposes or two secrets have the same key")
	}
}
