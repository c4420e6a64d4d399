//go:build linux

package e2e_test

import (
	"testing"
	"time"

	"shardway/e2e/kit/cluster"
)

// TestColdStartMovesNoShard starts three nodes together. They get one map with shards,
// and no shard moves after that. Once the node that bootstrapped owned all shards first,
// and then half and a third of them moved.
func TestColdStartMovesNoShard(t *testing.T) {
	c := cluster.New(t, cluster.Options{Binaries: binaries(t), Shards: shards})
	for range 3 {
		c.Prepare(t, "--bootstrap-expect", "3")
	}
	c.AddJoinFlags()
	for _, node := range c.Nodes() {
		node.Start(t)
	}
	shardMap := c.AwaitServing(t)
	// A second map would have been committed before: joins are collected for half a
	// second.
	time.Sleep(2 * time.Second)
	if after := c.AwaitServing(t); after.Epoch != shardMap.Epoch {
		t.Errorf("map %d follows the first map, %d", after.Epoch, shardMap.Epoch)
	}
	for s := range shardMap.Shards {
		if shardMap.Owner(s) == "" {
			t.Errorf("shard %d has no owner", s)
		}
	}
	for _, node := range c.Nodes() {
		x, err := node.Metrics(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if got := x.Sum("shardway_epoch"); got != float64(shardMap.Epoch) {
			t.Errorf("%s: epoch %v, want the first map's, %d", node.ID, got, shardMap.Epoch)
		}
	}
	if seen := c.Maps(); len(seen) != 1 {
		t.Errorf("%d maps with shards, want 1: %v", len(seen), seen)
	}
}
