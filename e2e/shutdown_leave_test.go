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
	l := c.Load(t, c.Running(), cluster.Traffic{})
	order := append([]*cluster.Node{c.Leader(t)}, c.Others(c.Leader(t))...)
	for _, n := range order {
		before := c.AwaitServing(t)
		l.AwaitStarted(t, 100)
		n.Terminate(t)
		// The process exits only after its shards have other owners.
		n.AwaitExit(t, 0)
		for _, other := range c.Others(n) {
			m, err := other.Map(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if m.Counts()[n.ID] != 0 {
				t.Errorf("%s exited while %s reports that it owns %d shards", n.ID, other.ID, m.Counts()[n.ID])
			}
		}
		without := c.AwaitServing(t)
		wantMoves(t, c, before, without)
		l.AwaitStarted(t, 100)
		n.Start(t)
		wantMoves(t, c, without, c.AwaitServing(t))
	}
	l.AwaitStarted(t, 100)
	l.Finish(t)
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
			for _, n := range nodes {
				n.Terminate(t)
			}
			for _, n := range nodes {
				n.AwaitExit(t, 0)
			}
			for _, id := range pair {
				c.Node(id).Start(t)
			}
			two := c.AwaitServing(t)
			l := c.Load(t, c.Running(), cluster.Traffic{Rate: 400})
			l.AwaitStarted(t, 2*shards)
			for _, n := range nodes {
				if !n.Running() {
					n.Start(t)
				}
			}
			three := c.AwaitServing(t)
			l.AwaitStarted(t, 100)
			l.Finish(t)
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
		n := c.Follower(t)
		l := c.Load(t, c.Others(n), cluster.Traffic{})
		n.Stop(t)
		c.AwaitServing(t)
		c.Leader(t).AwaitStatus(t, n.ID+" has left the voters", func(s cluster.Status) bool { return !s.Member(n.ID).Voter })
		if wipe {
			n.Wipe(t)
		}
		n.Start(t)
		c.AwaitServing(t) // as a voter
		l.AwaitStarted(t, 50)
		l.Finish(t)
	}
}
