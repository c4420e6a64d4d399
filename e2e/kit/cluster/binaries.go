//go:build linux

package cluster

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"
)

// Binaries are the programs of a cluster.
type Binaries struct {
	// Node is shardway, and App is the recording app of e2e/kit/testapp.
	Node, App string
	// Env is added to the environment of the nodes, as NAME=VALUE.
	Env []string
}

// nodeCommand returns the command line that runs a node with these arguments.
func (b Binaries) nodeCommand(args []string) []string {
	if len(b.Env) == 0 {
		return args
	}
	return slices.Concat([]string{"env"}, b.Env, args)
}

// Build compiles both programs into dir, without the race detector, since the tests need
// real timing. Without DWARF the link time is halved, and no debugger is needed. flags
// are further flags of go build.
func Build(ctx context.Context, dir string, flags ...string) (Binaries, error) {
	args := slices.Concat([]string{"build", "-ldflags=-w", "-o", dir + "/"}, flags, []string{"shardway", "shardway/e2e/kit/testapp"})
	cmd := exec.CommandContext(ctx, "go", args...) //nolint:gosec // the test's own
	if out, err := cmd.CombinedOutput(); err != nil {
		return Binaries{}, fmt.Errorf("cluster: go build: %w\n%s", err, out)
	}
	return Binaries{Node: filepath.Join(dir, "shardway"), App: filepath.Join(dir, "testapp")}, nil
}

// SharedBuild contains the binaries that all tests of a process use, and their scratch directory. It
// creates each when a test needs it first. Any goroutine may use it.
type SharedBuild struct {
	// Dir returns the scratch directory.
	Dir func() (string, error)

	build func() (Binaries, error)
}

// NewSharedBuild returns a SharedBuild. It creates nothing.
func NewSharedBuild() *SharedBuild {
	dir := sync.OnceValues(func() (string, error) {
		dir, err := Scratch()
		if err != nil {
			return "", err
		}
		return dir, os.Chmod(dir, 0o755) //nolint:gosec // some tests run the binaries as another user
	})
	return &SharedBuild{Dir: dir, build: sync.OnceValues(func() (Binaries, error) {
		target, err := dir()
		if err != nil {
			return Binaries{}, err
		}
		return Build(context.Background(), target)
	})}
}

// Binaries returns the binaries.
func (sb *SharedBuild) Binaries(tb testing.TB) Binaries {
	tb.Helper()
	binaries, err := sb.build()
	if err != nil {
		tb.Fatal(err)
	}
	return binaries
}

// Remove removes the scratch directory. TestMain calls it after the last test.
func (sb *SharedBuild) Remove() {
	if dir, err := sb.Dir(); err == nil {
		_ = os.RemoveAll(dir)
	}
}
