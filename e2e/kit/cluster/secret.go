//go:build linux

package cluster

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"shardway/internal/secret"
)

// SealVariable is set to anything to run every cluster that can be with a
// secret: all that is shown must hold then too.
const SealVariable = "SHARDWAY_E2E_SECRET"

// wantsSecret decides for Options that do not say. A relay looks into the streams
// between nodes, which it cannot with TLS.
func (o *Options) wantsSecret() bool {
	return o.Secret || os.Getenv(SealVariable) != "" && !o.Relay
}

// SecretFlags gives a process the cluster's secret, in a file of its own as each
// machine has; none in a cluster without.
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

// SecretFile is where SecretFlags puts it.
func (c *Cluster) SecretFile(name string) string { return filepath.Join(c.dir, "secret-"+name) }

func newSecrets() secret.List { return secret.List{secret.Generate(time.Now())} }
