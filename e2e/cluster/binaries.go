//go:build linux

package cluster

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
)

// Binaries are the programs that a cluster runs.
type Binaries struct {
	// Node is shardway itself, App the recording app of e2e/app.
	Node, App string
}

// Build compiles both into dir, without the race detector: e2e is about real
// timings.
func Build(ctx context.Context, dir string) (Binaries, error) {
	cmd := exec.CommandContext(ctx, "go", "build", "-o", dir+"/", "shardway", "shardway/e2e/app") //nolint:gosec // fixed packages
	if out, err := cmd.CombinedOutput(); err != nil {
		return Binaries{}, fmt.Errorf("cluster: go build: %w\n%s", err, out)
	}
	return Binaries{Node: filepath.Join(dir, "shardway"), App: filepath.Join(dir, "app")}, nil
}
