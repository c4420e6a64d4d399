//go:build linux

package cluster

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
)

// Binaries are the programs that a cluster runs.
type Binaries struct {
	// Node is shardway itself, App the recording app of e2e/kit/testapp.
	Node, App string
	// Env is added to the environment of the nodes: NAME=VALUE.
	Env []string
}

// command is the command line that runs a node with these arguments.
func (b Binaries) command(args []string) []string {
	if len(b.Env) == 0 {
		return args
	}
	return slices.Concat([]string{"env"}, b.Env, args)
}

// Build compiles both into dir, without the race detector: e2e is about real
// timings. Nobody debugs them, and without DWARF they are linked in half the time.
// More flags of go build come before the packages.
func Build(ctx context.Context, dir string, flags ...string) (Binaries, error) {
	args := slices.Concat([]string{"build", "-ldflags=-w", "-o", dir + "/"}, flags, []string{"shardway", "shardway/e2e/kit/testapp"})
	cmd := exec.CommandContext(ctx, "go", args...) //nolint:gosec // the test's own
	if out, err := cmd.CombinedOutput(); err != nil {
		return Binaries{}, fmt.Errorf("cluster: go build: %w\n%s", err, out)
	}
	return Binaries{Node: filepath.Join(dir, "shardway"), App: filepath.Join(dir, "testapp")}, nil
}
