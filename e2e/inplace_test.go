//go:build linux

package e2e_test

import (
	"testing"

	"shardway/e2e/cluster"
)

// TestRestartInPlaceMovesNothing restarts all nodes of five, one after the other, the
// leader first, twice, while clients talk to all of them: no shard ever moves, and
// nothing fails. Before, each restart moved every shard of the node away, and as many
// back.
func TestRestartInPlaceMovesNothing(t *testing.T) {
	t.Parallel() // it waits for processes most of the time
	c := start(t, 5, "--on-term=hold", "--hold-grace=13s")
	first := c.AwaitServing(t)
	l := c.Load(t, c.Running(), cluster.Traffic{Rate: 200})
	for range 2 {
		leader := c.Leader(t)
		for _, n := range append([]*cluster.Node{leader}, c.Others(leader)...) {
			l.Flow(t, 50)
			n.Terminate(t)
			n.AwaitExit(t, 0)
			n.Start(t)
			if m := c.AwaitServing(t); len(first.Moves(m)) > 0 {
				t.Fatalf("restart of %s moved %d shards", n.ID, len(first.Moves(m)))
			}
		}
	}
	l.Flow(t, 100)
	l.Finish(t)
	for _, m := range c.Maps() {
		if moved := len(first.Moves(m)); m.Epoch > first.Epoch && moved > 0 {
			t.Errorf("map %d has %d shards elsewhere", m.Epoch, moved)
		}
	}
}
