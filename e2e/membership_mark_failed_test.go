//go:build linux

package e2e_test

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"shardway/e2e/kit/cluster"
)

// markObservation is how long the test observes a marked node that works. A node without a mark gets shards sooner.
const markObservation = 4 * time.Second

// minLease is the default of --lease.
const minLease = 500 * time.Millisecond

// markFailed marks a node as failed, and waits until the other nodes own its shards.
func markFailed(t *testing.T, c *cluster.Cluster, leader, marked *cluster.Node) {
	t.Helper()
	markedAt := time.Now()
	leader.PerformAction(t, "mark-failed", url.Values{"node": {marked.ID}, "reason": {"disk errors"}})
	c.AwaitShards(t, c.Others(marked)...)
	t.Logf("the shards of %s moved %v after the mark", marked.ID, time.Since(markedAt).Round(10*time.Millisecond))
}

// expectNoShards checks that a marked node that sends heartbeats gets no shards.
func expectNoShards(t *testing.T, c *cluster.Cluster, marked *cluster.Node) {
	t.Helper()
	// A lease proves that the leader receives its heartbeats.
	marked.AwaitStatus(t, "has a lease", func(status cluster.Status) bool { return status.LeaseMS > 0 })
	since := c.AwaitShards(t, c.Others(marked)...)
	time.Sleep(markObservation)
	for _, shardMap := range c.Maps() {
		if counts := shardMap.Counts(); shardMap.Epoch >= since.Epoch && counts[marked.ID] > 0 {
			t.Errorf("epoch %d gives shards to the marked node %s: %v", shardMap.Epoch, marked.ID, counts)
		}
	}
	c.AwaitShards(t, c.Others(marked)...)
}

// TestMarkedNodeGetsNoShardsUntilItIsUncordoned marks a node that works. Its shards move at once, and it gets none after
// a restart, until it is uncordoned.
func TestMarkedNodeGetsNoShardsUntilItIsUncordoned(t *testing.T) {
	t.Parallel() // it waits most of the time
	c := start(t, 3)
	before := c.AwaitServing(t)
	leader := c.Leader(t)
	marked := c.Others(leader)[0]
	traffic := c.Load(t, c.Running(), cluster.Traffic{Rate: 60})
	traffic.AwaitStarted(t, 30)
	endDrain := marked.RecordDrain()
	markFailed(t, c, leader, marked)
	wantMoves(t, c, before, c.AwaitShards(t, c.Others(marked)...))
	cluster.Await(t, marked.ID+" is not ready", func() error {
		if err := marked.Ready(t.Context()); err == nil || !strings.Contains(err.Error(), "marked as failed") {
			return errNotYet
		}
		return nil
	})
	traffic.AwaitStarted(t, 30)
	marked.Kill(t)
	marked.Start(t)
	expectNoShards(t, c, marked)
	leader.PerformAction(t, "uncordon", url.Values{"node": {marked.ID}})
	endDrain()
	c.AwaitServing(t)
	must(t, marked.Ready(t.Context()))
	traffic.AwaitStarted(t, 30)
	traffic.Finish(t)
}

// TestMarkOfAStoppedProcessLastsUntilItsHeartbeat marks a node whose process is stopped. Its shards move after its lease, and
// it gets none before it sends heartbeats and is uncordoned.
func TestMarkOfAStoppedProcessLastsUntilItsHeartbeat(t *testing.T) {
	t.Parallel() // it waits most of the time
	c := start(t, 3)
	c.AwaitServing(t)
	leader := c.Leader(t)
	marked := c.Others(leader)[0]
	traffic := c.Load(t, c.Others(marked), cluster.Traffic{Rate: 60})
	traffic.AwaitStarted(t, 30)
	pausedAt := time.Now()
	marked.Pause(t)
	markFailed(t, c, leader, marked)
	if took := time.Since(pausedAt); took < minLease {
		t.Errorf("the shards moved %v after the node was stopped, and a lease lasts %v", took, minLease)
	}
	uncordon := url.Values{"node": {marked.ID}}
	if err := leader.TryAction(t.Context(), "uncordon", uncordon); err == nil || !strings.Contains(err.Error(), "node-unhealthy") {
		t.Errorf("uncordon of a stopped process: %v", err)
	}
	marked.Continue(t)
	expectNoShards(t, c, marked)
	leader.PerformAction(t, "uncordon", uncordon)
	c.AwaitServing(t)
	traffic.AwaitStarted(t, 30)
	traffic.Finish(t)
}
