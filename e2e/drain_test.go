//go:build linux

package e2e_test

import (
	"strings"
	"testing"

	"shardway/e2e/cluster"
)

// TestDrainUnderLoadFailsNothing drains each node in turn, the leader first, while
// clients talk to all of them, the drained one too: it owns nothing, forwards and
// votes. A second drain beside the first is refused, as nobody could be elected once
// both stop. After recover no drain is left.
func TestDrainUnderLoadFailsNothing(t *testing.T) {
	t.Parallel() // it waits for drains most of the time
	c := start(t, 3)
	l := c.Load(t, c.Running(), cluster.Traffic{})
	for _, n := range append([]*cluster.Node{c.Leader(t)}, c.Others(c.Leader(t))...) {
		others := c.Others(n)
		before := c.AwaitServing(t)
		l.Flow(t, 100)
		if out, code := shardway(t, "drain", n.ID, "--wait", "--admin", others[0].Admin); code != 0 || !strings.Contains(out, "owns nothing") {
			t.Fatalf("drain %s: exit %d, %s", n.ID, code, out)
		}
		without := c.AwaitShards(t, others...)
		wantMoves(t, c, before, without)
		l.Flow(t, 2*shards)
		if s, err := n.Status(t.Context()); err != nil || s.State != "drained" || s.Role == "leader" {
			t.Errorf("%s, drained, is %q, %s: %v", n.ID, s.State, s.Role, err)
		}
		if out, code := shardway(t, "drain", others[0].ID, "--admin", n.Admin); code != 1 || !strings.Contains(out, "1 of 3 voters are left and it takes 2 ("+n.ID+" is drained)") {
			t.Errorf("drain %s beside %s: exit %d, %s", others[0].ID, n.ID, code, out)
		}
		if out, code := shardway(t, "uncordon", n.ID, "--admin", n.Admin); code != 0 {
			t.Fatalf("uncordon %s: exit %d, %s", n.ID, code, out)
		}
		wantMoves(t, c, without, c.AwaitServing(t))
	}
	l.Flow(t, 100)
	l.Finish(t)

	survivor := c.Node("c")
	survivor.Do(t, "drain", map[string][]string{"node": {"c"}})
	c.AwaitShards(t, c.Others(survivor)...)
	for _, n := range c.Running() {
		n.Kill(t)
	}
	if out, code := shardway(t, "recover", "--data", survivor.Data, "--confirm", clusterOf(t, survivor)); code != 0 {
		t.Fatalf("recover: exit %d, %s", code, out)
	}
	survivor.Start(t)
	c.AwaitServedBy(t, survivor)
}
