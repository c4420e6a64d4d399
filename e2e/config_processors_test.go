//go:build linux

package e2e_test

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"shardway/e2e/kit/cluster"
)

// inUse is the metric of the number of processors that a node uses.
const inUse = "go_sched_gomaxprocs_threads"

// TestNodeUsesAsManyProcessorsAsItNeeds checks that a node with little work uses one
// processor, and that a node with an explicit setting keeps to it.
func TestNodeUsesAsManyProcessorsAsItNeeds(t *testing.T) {
	t.Parallel()
	told := binaries(t)
	fixed := runtime.NumCPU() + 1 // a number that a node would not choose
	told.Env = []string{fmt.Sprintf("GOMAXPROCS=%d", fixed)}
	using := func(c *cluster.Cluster, want int) error {
		x, err := c.Node("a").Metrics(t.Context())
		if got := x.Sum(inUse); err == nil && got != float64(want) {
			err = fmt.Errorf("it uses %v processors, want %d", got, want)
		}
		return err
	}
	// Both are asked in turn: the fixed one had as much time to reduce its processors as
	// the other.
	free := cluster.Start(t, cluster.Options{Binaries: binaries(t), Nodes: 1, Shards: shards})
	bound := cluster.Start(t, cluster.Options{Binaries: told, Nodes: 1, Shards: shards})
	cluster.AwaitFor(t, 3*time.Minute, "a node that idles", func() error { return using(free, 1) })
	cluster.Await(t, "the node with an explicit setting", func() error { return using(bound, fixed) })
}
