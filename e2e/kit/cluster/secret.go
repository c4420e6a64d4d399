//go:build linux

package cluster

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"shardway/internal/secret"
)

// SecretVariable is an environment variable. If it is set, every possible cluster runs with
// a secret: all tests must also pass then.
const SecretVariable = "SHARDWAY_E2E_SECRET" //nolint:gosec // the name of a variable, not a secret

// usesSecret returns Secret, or its default. A peerproxy reads the streams between
// nodes, so it is not possible with TLS.
func (o *Options) usesSecret() bool {
	return o.Secret || os.Getenv(SecretVariable) != "" && !o.PeerProxy
}

// SecretFlags returns the flags with the secret of the cluster, in a separate file per
// process as on separate machines. Without a secret it returns nil.
func (c *Cluster) SecretFlags(tb testing.TB, name string) []string {
	tb.Helper()
	if c.secrets == nil {
		return nil
	}
	path := c.SecretFile(name)
	if err := secret.WriteFile(path, c.secrets); err != nil {
		tb.Fatal(err)
	}
	return []string{"--secret-file", path}
}

// SecretFile returns the path of the file of SecretFlags.
func (c *Cluster) SecretFile(name string) string { return filepath.Join(c.dir, "secret-"+name) }

func newSecrets() secret.List { return secret.List{secret.Generate(time.Now())} }
