//go:build linux

package recipes_test

import (
	"testing"

	"shardway/e2e/kit/cluster"
)

// build belongs to the whole test run, so the binaries are built once.
var build = cluster.NewSharedBuild()

func TestMain(m *testing.M) {
	m.Run()
	removeInstallations()
	build.Remove()
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}
