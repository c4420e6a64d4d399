//go:build linux

package e2e_test

import (
	"fmt"
	"testing"

	"shardway/e2e/kit/cluster"
)

// TestRestartInPlaceMovesNoShard restarts all five nodes twice, one after the other, the
// leader first, under load. No shard moves, and no request fails. Without --on-shutdown
// hold, each restart moves every shard of the node away, and as many back.
func TestRestartInPlaceMovesNoShard(t *testing.T) {
	t.Parallel() // it waits for processes most of the time
	c := start(t, 5, "--on-shutdown=hold", "--hold-grace=13s")
	first := c.AwaitServing(t)
	l := c.Load(t, c.Running(), cluster.Traffic{Rate: 200})
	for range 2 {
		leader := c.Leader(t)
		for _, n := range append([]*cluster.Node{leader}, c.Others(leader)...) {
			l.AwaitStarted(t, 50)
			n.Terminate(t)
			n.AwaitExit(t, 0)
			n.Start(t)
			if m := c.AwaitServing(t); len(first.Moves(m)) > 0 {
				t.Fatalf("restart of %s moved %d shards", n.ID, len(first.Moves(m)))
			}
		}
	}
	l.AwaitStarted(t, 100)
	l.Finish(t)
	for _, m := range c.Maps() {
		if moved := len(first.Moves(m)); m.Epoch > first.Epoch && moved > 0 {
			t.Errorf("map %d has %d shards elsewhere", m.Epoch, moved)
		}
	}
}

// TestRestartInPlaceKeepsReleaseNotes restarts all three nodes twice in place, one after
// the other, under load. The apps write their state only when they release it. Each next
// process passes the release of every shard, with its note, to its app, and each counter
// continues with the next number. Otherwise the app would get no notice of the release, as after a
// crash.
func TestRestartInPlaceKeepsReleaseNotes(t *testing.T) {
	t.Parallel() // it waits for processes most of the time
	c := startWithCounters(t, 3, nil, "--on-shutdown=hold", "--hold-grace=13s")
	first := c.AwaitServing(t)
	counts := map[string]uint64{}
	l := c.Load(t, c.Running(), cluster.Traffic{Rate: 200})
	for range 2 {
		for _, n := range c.Nodes() {
			l.AwaitStarted(t, 50)
			before := len(hookCallsOf(t, n))
			n.Terminate(t)
			n.AwaitExit(t, 0)
			n.Start(t)
			if m := c.AwaitServing(t); len(first.Moves(m)) > 0 {
				t.Fatalf("restart of %s moved %d shards", n.ID, len(first.Moves(m)))
			}
			for _, s := range awaitAcquired(t, n, before, first.Counts()[n.ID]) {
				switch {
				case s.Hook == "lost" || s.Err != "":
					t.Errorf("%s: %+v", n.ID, s)
				case s.Hook == "acquire" && (!s.Released || s.From != n.ID || !s.Again):
					t.Errorf("%s acquires what it has released itself: %+v", n.ID, s)
				}
			}
		}
	}
	l.AwaitStarted(t, 100)
	l.Finish(t)
	wantExactCounts(t, counts, l.Responses())
}

// awaitAcquired waits until the app of a node has acquired this number of shards since
// the first before calls, and returns these calls. A node with a lease may still wait for
// its app; requests for these shards are queued meanwhile.
func awaitAcquired(t *testing.T, n *cluster.Node, before, shards int) (told []cluster.HookCall) {
	t.Helper()
	cluster.Await(t, fmt.Sprintf("%s acquires %d shards", n.ID, shards), func() error {
		told = hookCallsOf(t, n)[before:]
		acquired := 0
		for _, s := range told {
			if s.Hook == "acquire" {
				acquired++
			}
		}
		if acquired < shards {
			return fmt.Errorf("it has acquired %d", acquired)
		}
		return nil
	})
	return told
}

// hookCallsOf returns the hook calls of the app of a node so far.
func hookCallsOf(t *testing.T, n *cluster.Node) []cluster.HookCall {
	t.Helper()
	told, err := n.App.HookCalls(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return told
}
