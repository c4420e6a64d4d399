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
	traffic := c.Load(t, c.Running(), cluster.Traffic{Rate: 200})
	for range 2 {
		leader := c.Leader(t)
		for _, node := range append([]*cluster.Node{leader}, c.Others(leader)...) {
			traffic.AwaitStarted(t, 50)
			node.Terminate(t)
			node.AwaitExit(t, 0)
			node.Start(t)
			if shardMap := c.AwaitServing(t); len(first.Moves(shardMap)) > 0 {
				t.Fatalf("restart of %s moved %d shards", node.ID, len(first.Moves(shardMap)))
			}
		}
	}
	traffic.AwaitStarted(t, 100)
	traffic.Finish(t)
	for _, shardMap := range c.Maps() {
		if moved := len(first.Moves(shardMap)); shardMap.Epoch > first.Epoch && moved > 0 {
			t.Errorf("map %d has %d shards elsewhere", shardMap.Epoch, moved)
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
	traffic := c.Load(t, c.Running(), cluster.Traffic{Rate: 200})
	for range 2 {
		for _, node := range c.Nodes() {
			traffic.AwaitStarted(t, 50)
			before := len(hookCallsOf(t, node))
			node.Terminate(t)
			node.AwaitExit(t, 0)
			node.Start(t)
			if shardMap := c.AwaitServing(t); len(first.Moves(shardMap)) > 0 {
				t.Fatalf("restart of %s moved %d shards", node.ID, len(first.Moves(shardMap)))
			}
			for _, call := range awaitAcquired(t, node, before, first.Counts()[node.ID]) {
				switch {
				case call.Hook == "lost" || call.Err != "":
					t.Errorf("%s: %+v", node.ID, call)
				case call.Hook == "acquire" && (!call.Released || call.From != node.ID || !call.Again):
					t.Errorf("%s acquires a shard that it has released itself: %+v", node.ID, call)
				}
			}
		}
	}
	traffic.AwaitStarted(t, 100)
	traffic.Finish(t)
	wantExactCounts(t, counts, traffic.Responses())
}

// awaitAcquired waits until the app of a node has acquired this number of shards since
// the first before calls, and returns these calls. A node with a lease may still wait for
// its app; requests for these shards are queued in the meantime.
func awaitAcquired(t *testing.T, node *cluster.Node, before, shards int) (calls []cluster.HookCall) {
	t.Helper()
	cluster.Await(t, fmt.Sprintf("%s acquires %d shards", node.ID, shards), func() error {
		calls = hookCallsOf(t, node)[before:]
		acquired := 0
		for _, call := range calls {
			if call.Hook == "acquire" {
				acquired++
			}
		}
		if acquired < shards {
			return fmt.Errorf("it has acquired %d", acquired)
		}
		return nil
	})
	return calls
}

// hookCallsOf returns the hook calls of the app of a node so far.
func hookCallsOf(t *testing.T, node *cluster.Node) []cluster.HookCall {
	t.Helper()
	calls, err := node.App.HookCalls(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return calls
}
