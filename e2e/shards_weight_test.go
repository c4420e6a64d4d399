//go:build linux

package e2e_test

import (
	"fmt"
	"testing"

	"shardway/e2e/kit/cluster"
)

// TestWeightsAndGatewaySurviveKill has nodes of weights 1, 2 and 3, and a gateway without
// an app. Each owns shards in proportion to its weight, and the gateway none. The
// heaviest node is killed with load on the others, including the gateway. No request
// fails.
func TestWeightsAndGatewaySurviveKill(t *testing.T) {
	t.Parallel() // it waits for elections most of the time
	c := cluster.New(t, cluster.Options{Binaries: binaries(t), Shards: shards, Secret: hasSecret(t)})
	a := c.Prepare(t, "--bootstrap-expect", "4", "--weight", "1")
	b := c.Prepare(t, "--bootstrap-expect", "4", "--weight", "2")
	heavy := c.Prepare(t, "--bootstrap-expect", "4", "--weight", "3")
	gateway := c.Prepare(t, "--bootstrap-expect", "4", "--upstream=")
	c.AddJoinFlags()
	for _, n := range c.Nodes() {
		n.Start(t)
	}
	awaitWeights(t, c, map[string]int{"a": 1, "b": 2, "c": 3})
	traffic := c.Load(t, []*cluster.Node{gateway, a, b}, cluster.Traffic{})
	traffic.AwaitStarted(t, seconds/2)
	heavy.Kill(t)
	traffic.AwaitStarted(t, seconds/2)
	awaitWeights(t, c, map[string]int{"a": 1, "b": 2})
	traffic.AwaitStarted(t, seconds/2)
	heavy.Start(t)
	awaitWeights(t, c, map[string]int{"a": 1, "b": 2, "c": 3})
	traffic.AwaitStarted(t, seconds/2)
	traffic.Finish(t)
	for _, run := range c.AwaitRuns(t) {
		if run.App == gateway.ID {
			t.Fatalf("the gateway's app ran %s", run.ID)
		}
	}
}

// awaitWeights waits until each node owns its share of the shards, within one, by the map
// of every running node.
func awaitWeights(t *testing.T, c *cluster.Cluster, weights map[string]int) {
	t.Helper()
	sum := 0
	for _, w := range weights {
		sum += w
	}
	cluster.Await(t, fmt.Sprintf("shards are shared by %v", weights), func() error {
		for _, node := range c.Running() {
			shardMap, err := node.Map(t.Context())
			if err != nil {
				return err
			}
			counts := shardMap.Counts()
			for id, owned := range counts {
				if share := shardMap.Shards * weights[id] / sum; weights[id] == 0 || owned < share || owned > share+1 {
					return fmt.Errorf("%s: %s owns %d shards, want %d or one more: %v", node.ID, id, owned, share, counts)
				}
			}
			if len(counts) != len(weights) {
				return fmt.Errorf("%s: the map has counts %v", node.ID, counts)
			}
		}
		return nil
	})
}
