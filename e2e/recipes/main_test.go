//go:build linux

package recipes_test

import (
	"fmt"
	"os"
	"testing"

	"shardway/e2e/kit/cluster"
)

// build belongs to the whole test run, so the binaries are built once.
var build = cluster.NewSharedBuild()

func TestMain(m *testing.M) {
	if serveReaper() {
		return
	}
	run := fmt.Sprint(os.Getpid(), "-", os.Getppid())
	stopReaper, err := startReaper(run)
	if err == nil {
		err = os.Setenv(runVariable, run) // not for the reaper
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1) //nolint:forbidigo // no test can run
	}
	m.Run()
	removeInstallations()
	build.Remove()
	err = awaitNoProcess(run)
	_ = stopReaper() // it ends processes that are left
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1) //nolint:forbidigo // m.Run has set another exit code
	}
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}
