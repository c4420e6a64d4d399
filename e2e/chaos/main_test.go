//go:build linux

package chaos_test

import (
	"testing"

	"shardway/e2e/kit/cluster"
	"shardway/e2e/kit/faultfs"
)

// build belongs to the whole test run, so the binaries are built once.
var build = cluster.NewSharedBuild()

func TestMain(m *testing.M) {
	if faultfs.Serve() {
		return
	}
	m.Run()
	build.Remove()
}

func binaries(tb testing.TB) cluster.Binaries {
	tb.Helper()
	return build.Binaries(tb)
}
