//go:build linux

package cluster

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
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
