//go:build linux

package e2e_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"shardway/e2e/kit/cluster"
)

// TestForceRemovesKilledNodeAtOnce kills a node and removes it before gossip has detected
// the crash, which takes seconds.
func TestForceRemovesKilledNodeAtOnce(t *testing.T) {
	t.Parallel()
	c := start(t, 4)
	w := diagnosisTest{t, c}
	victim := c.Follower(t)
	leader := c.Leader(t)
	victim.Kill(t)
	startedAt := time.Now()
	cluster.AwaitFor(t, 2*time.Second, "removed with --force", func() error {
		return leader.TryAction(t.Context(), "remove", map[string][]string{"node": {victim.ID}, "force": {"true"}})
	})
	if elapsed := time.Since(startedAt); elapsed > 2*time.Second {
		t.Errorf("the removal took %v", elapsed)
	}
	c.AwaitServedBy(t, c.Running()...)
	cluster.Await(t, "the removed node is not listed", func() error {
		if _, nodes := w.run(leader, "nodes"); strings.Contains(nodes, victim.Gossip) {
			return errors.New(nodes)
		}
		return nil
	})
}
