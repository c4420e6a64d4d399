//go:build linux

package recipes_test

import (
	"context"
	"os"
	"sync"
	"testing"

	"shardway/e2e/kit/cluster"
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
	m.Run()
	if dir, err := scratch(); err == nil {
		_ = os.RemoveAll(dir)
	}
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}
