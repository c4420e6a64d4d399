//go:build linux

package chaos_test

import (
	"context"
	"os"
	"sync"
	"testing"

	"shardway/e2e/kit/cluster"
	"shardway/e2e/kit/faultfs"
)

// scratch and built belong to the whole test run, so the binaries are built once.
var (
	scratch = sync.OnceValues(cluster.Scratch)
	built   = sync.OnceValues(func() (cluster.Binaries, error) {
		dir, err := scratch()
		if err != nil {
			return cluster.Binaries{}, err
		}
		return cluster.Build(context.Background(), dir)
	})
)

func TestMain(m *testing.M) {
	if faultfs.Serve() {
		return
	}
	m.Run()
	if dir, err := scratch(); err == nil {
		_ = os.RemoveAll(dir)
	}
}

func binaries(tb testing.TB) cluster.Binaries {
	tb.Helper()
	b, err := built()
	if err != nil {
		tb.Fatal(err)
	}
	return b
}
