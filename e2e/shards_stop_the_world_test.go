//go:build linux

package e2e_test

import (
	"errors"
	"fmt"
	"testing"

	"shardway/e2e/kit/cluster"
	"shardway/e2e/kit/history"
	"shardway/e2e/kit/load"
)

var errNotYet = errors.New("not yet")

// TestStopTheWorldStartsNoRequest observes a long time between proposal and commit. With
// --rebalance-mode stop-the-world no app starts a request in that time, and no request
// fails. With --rebalance-mode incremental, requests of other shards continue, which
// shows that the test can detect a difference.
//
//nolint:tparallel // its parts are one cluster's, one after the other
func TestStopTheWorldStartsNoRequest(t *testing.T) {
	t.Parallel() // it waits for drains most of the time
	for _, mode := range []string{"stop-the-world", "incremental"} {
		t.Run(mode, func(t *testing.T) {
			c := start(t, 3, "--rebalance-mode", mode, "--drain-timeout", "15s")
			t.Run("a node leaves", func(t *testing.T) { leaveSlowly(t, c, mode) })
			t.Run("an election moves nothing", func(t *testing.T) { electSlowly(t, c, mode) })
		})
	}
}

// leaveSlowly makes a node leave while a request hangs in it, so the round takes as long
// as the request.
func leaveSlowly(t *testing.T, c *cluster.Cluster, mode string) {
	t.Helper()
	node := c.Follower(t)
	before := c.AwaitServing(t)
	hanging := c.SendAsync(t, node, load.Request{Key: before.Keys(node.ID, 1)[0], Header: map[string]string{"App-Hang": "gate"}})
	node.App.AwaitHanging(t, "gate", 1)
	traffic := c.Load(t, c.Others(node), cluster.Traffic{})
	traffic.AwaitStarted(t, seconds/2)
	node.Terminate(t)
	from, to := window(t, traffic, c.Running())
	routed, err := c.Others(node)[0].Map(t.Context()) // idle shards may have moved before
	if err != nil {
		t.Fatal(err)
	}
	node.App.Release(t, "gate")
	node.AwaitExit(t, 0)
	if resp := hanging.Response(t); !resp.OK() {
		t.Errorf("the hanging request got %d %s", resp.Status, resp.Error)
	}
	c.AwaitServing(t)
	traffic.AwaitStarted(t, seconds/2)
	traffic.Finish(t)
	wantStarts(t, c, mode, routed, node.ID, from, to)
	node.Start(t)
	c.AwaitServing(t)
}

// electSlowly makes the leader step down while a node is paused. The new leader
// initially counts the node as present, so its round moves no shard and takes long.
func electSlowly(t *testing.T, c *cluster.Cluster, mode string) {
	t.Helper()
	before := c.AwaitServing(t)
	leader := c.Leader(t)
	still := c.Others(leader)[1]
	others := c.Others(still)
	traffic := c.Load(t, others, cluster.Traffic{})
	traffic.AwaitStarted(t, seconds/2)
	still.Pause(t)
	leader.PerformAction(t, "step-down", nil)
	from, to := window(t, traffic, others)
	still.Continue(t)
	c.AwaitServing(t)
	traffic.AwaitStarted(t, seconds/2)
	traffic.Finish(t)
	wantStarts(t, c, mode, before, still.ID, from, to)
}

// window returns two times between which all these nodes had applied the same proposal,
// and nothing after it.
func window(t *testing.T, traffic *cluster.Load, nodes []*cluster.Node) (from, to int64) {
	t.Helper()
	var open uint64
	paused := func() error {
		open = 0
		for _, node := range nodes {
			status, err := node.Status(t.Context())
			if err != nil {
				return err
			}
			if status.Proposed == status.Epoch || open != 0 && status.Proposed != open {
				return fmt.Errorf("node %s: epoch %d, proposed %d", node.ID, status.Epoch, status.Proposed)
			}
			open = status.Proposed
		}
		return nil
	}
	// A staged move has short rounds for shards that become idle, before the long one.
	for range 10 {
		cluster.Await(t, "a proposal is open everywhere", paused)
		first := open
		traffic.AwaitStarted(t, seconds/5) // earlier requests have reached the app
		from = history.Now()
		traffic.AwaitStarted(t, seconds/2)
		to = history.Now()
		if err := paused(); err == nil && open == first {
			return from, to
		}
	}
	t.Fatal("every round ended too early to be looked at")
	return 0, 0
}

// wantStarts checks which requests started in the window: none with --rebalance-mode
// stop-the-world. Otherwise some, but not in the shards of the leaving or paused node.
func wantStarts(t *testing.T, c *cluster.Cluster, mode string, shardMap cluster.Map, node string, from, to int64) {
	t.Helper()
	starts := 0
	for _, run := range c.AwaitRuns(t) {
		if run.Start < from || run.Start > to {
			continue
		}
		starts++
		if mode == "stop-the-world" {
			t.Errorf("%s started %s while the cluster was paused", run.App, run.ID)
		} else if shardMap.Owner(int(run.Shard)) == node {
			t.Errorf("%s started %s in shard %d of %s", run.App, run.ID, run.Shard, node)
		}
	}
	if mode != "stop-the-world" && starts == 0 {
		t.Error("nothing started at all")
	}
}
