//go:build linux

package e2e_test

import (
	"testing"

	"shardway/e2e/kit/cluster"
)

// TestRollingRestartMovesEachShardTwice restarts four nodes one after the other, the
// leader first, under load. Each shard moves away from its node and back, and no more.
// Once a restarted node got other shards than before, so that some moved six times.
func TestRollingRestartMovesEachShardTwice(t *testing.T) {
	t.Parallel() // it waits for drains most of the time
	c := start(t, 4)
	first := c.AwaitServing(t)
	count := countMoves(first)
	traffic := c.Load(t, c.Running(), cluster.Traffic{Rate: 200})
	for _, node := range append([]*cluster.Node{c.Leader(t)}, c.Others(c.Leader(t))...) {
		traffic.AwaitStarted(t, 50)
		node.Terminate(t)
		node.AwaitExit(t, 0)
		c.AwaitServing(t)
		node.Start(t)
		c.AwaitServing(t)
	}
	traffic.AwaitStarted(t, 100)
	traffic.Finish(t)
	if maximum := count(t, c); maximum > 2 {
		t.Errorf("a shard moved %d times, want 2 at most", maximum)
	}
}

// TestReplacingNodesMovesEachShardOnce starts new nodes first, cordons the old ones and
// stops them one after the other, under load. Each shard moves at most once.
func TestReplacingNodesMovesEachShardOnce(t *testing.T) {
	t.Parallel() // it waits for drains most of the time
	c := start(t, 3)
	old := c.Running()
	first := c.AwaitServing(t)
	count := countMoves(first)
	traffic := c.Load(t, old, cluster.Traffic{Rate: 200})
	if out, code := shardway(t, "pause", "--for", "1h", "--admin", old[0].Admin); code != 0 {
		t.Fatalf("pause: exit %d, %s", code, out)
	}
	for range 3 {
		node := c.Add(t)
		old[0].AwaitStatus(t, node.ID+" is in the map", func(status cluster.Status) bool { return status.Member(node.ID).State == "active" })
	}
	young := c.Others(old...)
	for _, node := range old {
		if out, code := shardway(t, "cordon", node.ID, "--admin", old[0].Admin); code != 0 {
			t.Fatalf("cordon %s: exit %d, %s", node.ID, code, out)
		}
	}
	if out, code := shardway(t, "resume", "--admin", old[0].Admin); code != 0 {
		t.Fatalf("resume: exit %d, %s", code, out)
	}
	old[0].AwaitStatus(t, "every new node owns shards", func(status cluster.Status) bool {
		for _, node := range young {
			if status.Member(node.ID).Shards == 0 {
				return false
			}
		}
		return status.Epoch == status.Proposed
	})
	traffic.SetTargets(young)
	for _, node := range old {
		traffic.AwaitStarted(t, 50)
		node.Terminate(t)
		node.AwaitExit(t, 0)
	}
	c.AwaitShards(t, young...)
	traffic.AwaitStarted(t, 100)
	traffic.Finish(t)
	if maximum := count(t, c); maximum > 1 {
		t.Errorf("a shard moved %d times, want once at most", maximum)
	}
}

// countMoves returns a function that returns how often any shard has moved at most since
// a map, as far as the maps were observed.
func countMoves(since cluster.Map) func(t *testing.T, c *cluster.Cluster) int {
	return func(t *testing.T, c *cluster.Cluster) int {
		t.Helper()
		moves, last, maximum := map[int]int{}, since, 0
		for _, shardMap := range c.Maps() {
			if shardMap.Epoch <= last.Epoch {
				continue
			}
			for _, mv := range last.Moves(shardMap) {
				moves[mv.Shard]++
				maximum = max(maximum, moves[mv.Shard])
			}
			last = shardMap
		}
		t.Logf("%d shards moved, the most often moved %d times", len(moves), maximum)
		return maximum
	}
}
