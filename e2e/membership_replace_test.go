//go:build linux

package e2e_test

import (
	"testing"

	"shardway/e2e/kit/cluster"
)

// TestReplacementGetsVoteOfStoppedNode stops one of three nodes and starts a replacement.
// There are three voters again, which tolerate the loss of one more node.
func TestReplacementGetsVoteOfStoppedNode(t *testing.T) {
	t.Parallel()
	c := start(t, 3)
	old := c.Follower(t)
	old.Stop(t)
	c.Add(t)
	c.AwaitServedBy(t, c.Running()...)
	leader := c.Leader(t)
	leader.AwaitStatus(t, "three vote, all of them here", func(status cluster.Status) bool {
		voters := 0
		for _, m := range status.Nodes {
			if m.Voter {
				voters++
			}
			if m.Voter && m.ID == old.ID {
				return false
			}
		}
		return voters == 3 && len(status.Findings) == 0
	})
	victim := c.Follower(t)
	victim.Kill(t)
	shardMap := c.AwaitServedBy(t, c.Running()...)
	if n := len(shardMap.Counts()); n != 2 {
		t.Errorf("%d nodes own shards, want two", n)
	}
}
