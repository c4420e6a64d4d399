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
	leader.AwaitStatus(t, "three vote, all of them here", func(s cluster.Status) bool {
		voters := 0
		for _, m := range s.Nodes {
			if m.Voter {
				voters++
			}
			if m.Voter && m.ID == old.ID {
				return false
			}
		}
		return voters == 3 && len(s.Findings) == 0
	})
	victim := c.Follower(t)
	victim.Kill(t)
	m := c.AwaitServedBy(t, c.Running()...)
	if n := len(m.Counts()); n != 2 {
		t.Errorf("%d nodes own shards, want two", n)
	}
}
