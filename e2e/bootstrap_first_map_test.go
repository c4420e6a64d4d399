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
	for _, n := range c.Nodes() {
		n.Start(t)
	}
	m := c.AwaitServing(t)
	// A second map would have been committed before: joins are collected for half a
	// second.
	time.Sleep(2 * time.Second)
	if after := c.AwaitServing(t); after.Epoch != m.Epoch {
		t.Errorf("map %d follows the first map, %d", after.Epoch, m.Epoch)
	}
	for s := range m.Shards {
		if m.Owner(s) == "" {
			t.Errorf("shard %d has no owner", s)
		}
	}
	for _, n := range c.Nodes() {
		x, err := n.Metrics(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if got := x.Sum("shardway_epoch"); got != float64(m.Epoch) {
			t.Errorf("%s: epoch %v, want the first map's, %d", n.ID, got, m.Epoch)
		}
	}
	if seen := c.Maps(); len(seen) != 1 {
		t.Errorf("%d maps with shards, want 1: %v", len(seen), seen)
	}
}
