//go:build linux

package e2e_test

import (
	"fmt"
	"testing"

	"shardway/e2e/kit/cluster"
	"shardway/e2e/kit/history"
)

// trials is the number of kills of each kind; the benchmark has 20.
const trials = 3

// TestKillFailsNoRequest kills a node that owns a third of the shards, with load on the
// other nodes. No request fails, only its shards move, and when it is back it regains its
// share with the fewest moves.
func TestKillFailsNoRequest(t *testing.T) {
	t.Parallel() // it waits for elections most of the time
	for _, f := range []struct {
		takeover string
		trials   int
	}{{"lease", trials}, {"immediate", trials}, {"timeout", 1}} {
		t.Run(f.takeover, func(t *testing.T) {
			t.Parallel()
			c := start(t, 3, "--takeover", f.takeover)
			for trial := range f.trials {
				t.Run(fmt.Sprintf("follower %d", trial), func(t *testing.T) { checkKill(t, c, c.Follower(t)) })
				t.Run(fmt.Sprintf("leader %d", trial), func(t *testing.T) { checkKill(t, c, c.Leader(t)) })
			}
		})
	}
}

func checkKill(t *testing.T, c *cluster.Cluster, victim *cluster.Node) {
	t.Helper()
	before := c.AwaitServing(t)
	traffic := c.Load(t, c.Others(victim), cluster.Traffic{})
	traffic.AwaitStarted(t, 100)
	victim.Kill(t)
	traffic.AwaitStarted(t, 100)
	without := c.AwaitServing(t)
	traffic.AwaitStarted(t, 100)
	traffic.Finish(t)
	wantMoves(t, c, before, without)
	victim.Start(t)
	wantMoves(t, c, without, c.AwaitServing(t))
}

// TestKilledNodeRestartsAtOnce restarts a killed node within a second, before or after
// its death was detected. No request fails, and it regains its share.
//
//nolint:tparallel // its parts are one cluster's, one after the other
func TestKilledNodeRestartsAtOnce(t *testing.T) {
	t.Parallel() // it waits for elections most of the time
	c := start(t, 3)
	for trial := range trials {
		for role, choose := range map[string]func(testing.TB) *cluster.Node{"follower": c.Follower, "leader": c.Leader} {
			t.Run(fmt.Sprintf("%s %d", role, trial), func(t *testing.T) {
				victim := choose(t)
				before := c.AwaitServing(t)
				traffic := c.Load(t, c.Others(victim), cluster.Traffic{})
				traffic.AwaitStarted(t, 100)
				victim.Kill(t)
				traffic.AwaitStarted(t, trial*60) // at once, then after 0.3 s and 0.6 s of load
				victim.Start(t)
				after := c.AwaitServing(t)
				traffic.AwaitStarted(t, 100)
				traffic.Finish(t)
				wantMoves(t, c, before, after)
			})
		}
	}
}

// TestClusterRestartsAfterAllNodesAreKilled checks that the map is the same after a
// restart from disk.
func TestClusterRestartsAfterAllNodesAreKilled(t *testing.T) {
	t.Parallel() // it waits for elections most of the time
	c := start(t, 3)
	// After a node has joined and left, the map differs from the map of a new cluster.
	d := c.Add(t)
	c.AwaitServing(t)
	d.Stop(t)
	before := c.AwaitServing(t)
	for range 2 {
		startedAt, nodes := history.Now(), c.Running()
		cluster.KillAll(t, nodes...)
		for _, n := range nodes {
			n.Start(t)
		}
		after := c.AwaitServing(t)
		wantSame(t, c, startedAt, before, after)
		if after.Epoch < before.Epoch {
			t.Errorf("epoch %d after %d", after.Epoch, before.Epoch)
		}
		traffic := c.Load(t, c.Running(), cluster.Traffic{})
		traffic.AwaitStarted(t, 2*shards)
		traffic.Finish(t)
	}
}
