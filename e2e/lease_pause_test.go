//go:build linux

package e2e_test

import (
	"fmt"
	"testing"

	"shardway/e2e/kit/cluster"
	"shardway/e2e/kit/history"
	"shardway/e2e/kit/load"
)

// seconds is the number of requests per second at the usual rate. Faults last for a
// number of requests.
const seconds = 200

// TestPausedOwnerServesNoRequestWithoutLease pauses a follower for 4 s under load. Its
// shards are taken over in the meantime. The new owners serve the requests that it accepted
// before the pause, and those that clients send to it during the pause, after it
// continues.
func TestPausedOwnerServesNoRequestWithoutLease(t *testing.T) {
	t.Parallel() // it waits for timeouts most of the time
	c := start(t, 3)
	owner := c.Follower(t)
	before := c.AwaitServing(t)
	others := c.Others(owner)
	everywhere := c.Load(t, c.Running(), cluster.Traffic{Rate: 60})
	traffic := c.Load(t, others, cluster.Traffic{})
	traffic.AwaitStarted(t, seconds/2)
	owner.Pause(t)
	traffic.AwaitStarted(t, 4*seconds)
	takenOver := c.AwaitServedBy(t, others...)
	wantMoves(t, c, before, takenOver)
	owner.Continue(t)
	continuedAt := history.Now()
	traffic.AwaitStarted(t, seconds)
	after := c.AwaitServing(t)
	wantMoves(t, c, takenOver, after)
	traffic.AwaitStarted(t, seconds/2)
	everywhere.EndLoad(t)
	report := traffic.Finish(t)
	if report.Handovers == 0 {
		t.Error("no shard was handed over: nothing was tested")
	}
	// Check has found no stale epoch and no second owner. All runs that the node began
	// after the pause belong to a new map.
	for _, run := range c.AwaitRuns(t) {
		if run.App == owner.ID && run.Start > continuedAt && run.Epoch <= takenOver.Epoch {
			t.Errorf("%s ran %s in shard %d with epoch %d, whose shards were taken over at %d", owner.ID, run.ID, run.Shard, run.Epoch, takenOver.Epoch)
		}
	}
}

// TestPausedLeaderAbortsNoRequest pauses the leader for 4 s. The other nodes elect a
// leader and continue, and running requests survive the election.
func TestPausedLeaderAbortsNoRequest(t *testing.T) {
	t.Parallel() // it waits for timeouts most of the time
	c := start(t, 3)
	leader := c.Leader(t)
	before := c.AwaitServing(t)
	others := c.Others(leader)
	var streams []*cluster.AsyncRequest
	for i, node := range others {
		key := before.Keys(node.ID, 1)[0]
		// The owner is also the ingress, so that the paused node is not involved.
		streams = append(streams, c.SendAsync(t, node, load.Request{
			ID: fmt.Sprintf("stream%d", i), Key: key,
			Header: map[string]string{"App-Chunks": "80", "App-Delay": "100ms", "App-Size": "80000"},
		}))
		cluster.Await(t, "the stream runs", func() error {
			if node.App.Executions(t, fmt.Sprintf("stream%d", i)) != 1 {
				return errNotYet
			}
			return nil
		})
	}
	traffic := c.Load(t, others, cluster.Traffic{})
	traffic.AwaitStarted(t, seconds/2)
	leader.Pause(t)
	traffic.AwaitStarted(t, 4*seconds)
	c.AwaitServedBy(t, others...)
	c.LeaderOf(t, others...)
	leader.Continue(t)
	traffic.AwaitStarted(t, seconds)
	c.AwaitServing(t)
	traffic.Finish(t)
	for i, request := range streams {
		if resp := request.Response(t); !resp.OK() || resp.Bytes != 80_000 {
			t.Errorf("stream %d: %+v, want it complete", i, resp)
		}
	}
	for _, run := range c.AwaitRuns(t) {
		if run.Aborted && run.App != leader.ID {
			t.Errorf("%s was cut off while it ran %s", run.App, run.ID)
		}
	}
}
