//go:build linux

package cluster_test

import (
	"net"
	"os"
	"path/filepath"
	"testing"

	"shardway/e2e/kit/cluster"
)

// A killed node leaves a socket in its data directory, which cannot be copied.
func TestCopyDataOmitsSockets(t *testing.T) {
	from, to := t.TempDir(), filepath.Join(t.TempDir(), "copy")
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	ln, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(from, "self.sock")})
	must(err)
	ln.SetUnlinkOnClose(false)
	must(ln.Close())
	must(os.Mkdir(filepath.Join(from, "raft"), 0o700))
	must(os.WriteFile(filepath.Join(from, "raft", "log.db"), []byte("log"), 0o600))
	must(cluster.CopyData(to, from))
	if b, err := os.ReadFile(filepath.Join(to, "raft", "log.db")); err != nil || string(b) != "log" {
		t.Errorf("log = %q, %v", b, err)
	}
	if _, err := os.Lstat(filepath.Join(to, "self.sock")); !os.IsNotExist(err) {
		t.Errorf("socket: %v", err)
	}
}
