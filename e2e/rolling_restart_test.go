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
	l := c.Load(t, c.Running(), cluster.Traffic{Rate: 200})
	for _, n := range append([]*cluster.Node{c.Leader(t)}, c.Others(c.Leader(t))...) {
		l.AwaitStarted(t, 50)
		n.Terminate(t)
		n.AwaitExit(t, 0)
		c.AwaitServing(t)
		n.Start(t)
		c.AwaitServing(t)
	}
	l.AwaitStarted(t, 100)
	l.Finish(t)
	if most := count(t, c); most > 2 {
		t.Errorf("a shard moved %d times, want 2 at most", most)
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
	l := c.Load(t, old, cluster.Traffic{Rate: 200})
	if out, code := shardway(t, "pause", "--for", "1h", "--admin", old[0].Admin); code != 0 {
		t.Fatalf("pause: exit %d, %s", code, out)
	}
	for range 3 {
		n := c.Add(t)
		old[0].AwaitStatus(t, n.ID+" is in the map", func(s cluster.Status) bool { return s.Member(n.ID).State == "active" })
	}
	young := c.Others(old...)
	for _, n := range old {
		if out, code := shardway(t, "cordon", n.ID, "--admin", old[0].Admin); code != 0 {
			t.Fatalf("cordon %s: exit %d, %s", n.ID, code, out)
		}
	}
	if out, code := shardway(t, "resume", "--admin", old[0].Admin); code != 0 {
		t.Fatalf("resume: exit %d, %s", code, out)
	}
	old[0].AwaitStatus(t, "every new node owns shards", func(s cluster.Status) bool {
		for _, n := range young {
			if s.Member(n.ID).Shards == 0 {
				return false
			}
		}
		return s.Epoch == s.Proposed
	})
	l.SetTargets(young)
	for _, n := range old {
		l.AwaitStarted(t, 50)
		n.Terminate(t)
		n.AwaitExit(t, 0)
	}
	c.AwaitShards(t, young...)
	l.AwaitStarted(t, 100)
	l.Finish(t)
	if most := count(t, c); most > 1 {
		t.Errorf("a shard moved %d times, want once at most", most)
	}
}

// countMoves returns a function that returns how often any shard has moved at most since
// a map, as far as the maps were observed.
func countMoves(since cluster.Map) func(t *testing.T, c *cluster.Cluster) int {
	return func(t *testing.T, c *cluster.Cluster) int {
		t.Helper()
		moves, last, most := map[int]int{}, since, 0
		for _, m := range c.Maps() {
			if m.Epoch <= last.Epoch {
				continue
			}
			for _, mv := range last.Moves(m) {
				moves[mv.Shard]++
				most = max(most, moves[mv.Shard])
			}
			last = m
		}
		t.Logf("%d shards moved, the most often moved %d times", len(moves), most)
		return most
	}
}
