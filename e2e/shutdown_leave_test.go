//go:build linux

package e2e_test

import (
	"fmt"
	"testing"

	"shardway/e2e/kit/cluster"
)

// TestSigtermUnderLoadFailsNoRequest stops and restarts each node in turn, the leader
// first, with load on all of them: a rolling restart.
func TestSigtermUnderLoadFailsNoRequest(t *testing.T) {
	t.Parallel() // it waits for drains most of the time
	c := start(t, 3)
	traffic := c.Load(t, c.Running(), cluster.Traffic{})
	order := append([]*cluster.Node{c.Leader(t)}, c.Others(c.Leader(t))...)
	for _, node := range order {
		before := c.AwaitServing(t)
		traffic.AwaitStarted(t, 100)
		node.Terminate(t)
		// The process exits only after its shards have other owners.
		node.AwaitExit(t, 0)
		for _, other := range c.Others(node) {
			shardMap, err := other.Map(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if shardMap.Counts()[node.ID] != 0 {
				t.Errorf("%s exited while %s reports that it owns %d shards", node.ID, other.ID, shardMap.Counts()[node.ID])
			}
		}
		without := c.AwaitServing(t)
		wantMoves(t, c, before, without)
		traffic.AwaitStarted(t, 100)
		node.Start(t)
		wantMoves(t, c, without, c.AwaitServing(t))
	}
	traffic.AwaitStarted(t, 100)
	traffic.Finish(t)
}

// TestAllNodesStopAtOnce stops three nodes together and starts any two of them. A stop of
// the whole cluster removes no member.
//
//nolint:tparallel // its parts are one cluster's, one after the other
func TestAllNodesStopAtOnce(t *testing.T) {
	t.Parallel() // it waits for drains most of the time
	c := start(t, 3)
	for _, pair := range [][2]string{{"a", "b"}, {"b", "c"}, {"a", "c"}} {
		t.Run(fmt.Sprint(pair), func(t *testing.T) {
			before := c.AwaitServing(t)
			nodes := c.Running()
			for _, node := range nodes {
				node.Terminate(t)
			}
			for _, node := range nodes {
				node.AwaitExit(t, 0)
			}
			for _, id := range pair {
				c.Node(id).Start(t)
			}
			two := c.AwaitServing(t)
			traffic := c.Load(t, c.Running(), cluster.Traffic{Rate: 400})
			traffic.AwaitStarted(t, 2*shards)
			for _, node := range nodes {
				if !node.Running() {
					node.Start(t)
				}
			}
			three := c.AwaitServing(t)
			traffic.AwaitStarted(t, 100)
			traffic.Finish(t)
			if before.Epoch >= two.Epoch || two.Epoch >= three.Epoch {
				t.Errorf("epochs %d, %d, %d, want them to grow", before.Epoch, two.Epoch, three.Epoch)
			}
		})
	}
}

// TestStoppedNodeReturns restarts a node that has left, with its disk and with an empty
// one. It is added again, and votes again.
func TestStoppedNodeReturns(t *testing.T) {
	t.Parallel() // it waits for drains most of the time
	c := start(t, 4)
	for _, wipe := range []bool{false, true} {
		node := c.Follower(t)
		traffic := c.Load(t, c.Others(node), cluster.Traffic{})
		node.Stop(t)
		c.AwaitServing(t)
		c.Leader(t).AwaitStatus(t, node.ID+" has left the voters", func(status cluster.Status) bool { return !status.Member(node.ID).Voter })
		if wipe {
			node.Wipe(t)
		}
		node.Start(t)
		c.AwaitServing(t) // as a voter
		traffic.AwaitStarted(t, 50)
		traffic.Finish(t)
	}
}
