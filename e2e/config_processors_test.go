//go:build linux

package e2e_test

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"shardway/e2e/kit/cluster"
)

// inUse is the metric of how many processors a node uses now.
const inUse = "go_sched_gomaxprocs_threads"

// A node with little to do uses one processor; one that was told how many it is to use goes
// on to use as many.
func TestNodeUsesAsManyProcessorsAsItNeeds(t *testing.T) {
	t.Parallel()
	told := binaries(t)
	fixed := runtime.NumCPU() + 1 // no number that a node would choose
	told.Env = []string{fmt.Sprintf("GOMAXPROCS=%d", fixed)}
	using := func(c *cluster.Cluster, want int) error {
		x, err := c.Node("a").Metrics(t.Context())
		if got := x.Sum(inUse); err == nil && got != float64(want) {
			err = fmt.Errorf("it uses %v processors, want %d", got, want)
		}
		return err
	}
	// Both are asked in turn: what has one give processors back had the time for it in the other.
	free := cluster.Start(t, cluster.Options{Binaries: binaries(t), Nodes: 1, Shards: shards})
	bound := cluster.Start(t, cluster.Options{Binaries: told, Nodes: 1, Shards: shards})
	cluster.AwaitFor(t, 3*time.Minute, "a node that idles", func() error { return using(free, 1) })
	cluster.Await(t, "one that was told", func() error { return using(bound, fixed) })
}
