//go:build linux

package e2e_test

import (
	"net/http"
	"testing"
	"time"

	"shardway/e2e/kit/cluster"
	"shardway/e2e/kit/history"
	"shardway/e2e/kit/load"
)

// quickDrain shortens the timeouts of a round, so that a member that does not acknowledge
// is excluded after 2 s.
var quickDrain = []string{"--drain-timeout", "1s", "--stream-grace", "1s"}

// TestNodeWithoutLogIsExcluded withholds the log from one follower, whose heartbeats
// continue. It is responsive but never acknowledges a map. It serves nothing, the other
// nodes serve its shards, and it returns when it receives the log again; twice.
func TestNodeWithoutLogIsExcluded(t *testing.T) {
	t.Parallel() // it waits for the drop most of the time
	c := cluster.Start(t, cluster.Options{Binaries: binaries(t), Nodes: 3, Shards: shards, PeerProxy: true, Flags: quickDrain})
	for range 2 {
		held := c.Follower(t)
		traffic := c.Load(t, c.Others(held), cluster.Traffic{})
		traffic.AwaitStarted(t, seconds/2)
		before := c.AwaitServing(t)
		endFault := held.RecordFault(history.LogDelayed)
		held.PeerProxy.HoldLog()
		c.Add(t) // it does not receive this map change
		cluster.Await(t, "the log is held", func() error {
			if held.PeerProxy.HeldStreams() == 0 {
				return errNotYet
			}
			return nil
		})
		held.AwaitStatus(t, "has no lease", func(status cluster.Status) bool { return status.LeaseMS == 0 })
		alone := history.Now()
		without := c.AwaitServedBy(t, c.Others(held)...)
		traffic.AwaitStarted(t, seconds/2)
		status, err := held.Status(t.Context())
		if err != nil || status.LeaseMS != 0 || status.Epoch != before.Epoch || status.Proposed != before.Epoch {
			t.Errorf("without the log, %s has %+v, %v, want no lease and epoch %d", held.ID, status, err, before.Epoch)
		}
		released := history.Now()
		held.PeerProxy.Release()
		endFault()
		wantMoves(t, c, without, c.AwaitServing(t))
		traffic.AwaitStarted(t, seconds/2)
		traffic.Finish(t)
		for _, run := range c.AwaitRuns(t) {
			if run.App == held.ID && run.Start > alone && run.Start < released {
				t.Errorf("%v after it had no lease, %s ran %s (epoch %d)", time.Duration(run.Start-alone), held.ID, run.ID, run.Epoch)
			}
		}
	}
}

// TestHangingRequestsAreAbortedAfterDrainTimeout hangs a request in every shard of a node
// and lets another node join. Requests in moving shards are aborted with 502 shard-moved,
// requests in other shards continue, and the round ends.
func TestHangingRequestsAreAbortedAfterDrainTimeout(t *testing.T) {
	t.Parallel() // it waits for drains most of the time
	c := start(t, 3, quickDrain...)
	node := c.Node("a")
	before := c.AwaitServing(t)
	hanging := make(map[int]*cluster.AsyncRequest)
	for _, key := range before.Keys(node.ID, 1) {
		hanging[load.ShardOf(key, shards)] = c.SendAsync(t, node, load.Request{Key: key, Method: "POST", Header: map[string]string{"App-Hang": "gate"}})
	}
	node.App.AwaitHanging(t, "gate", len(hanging))
	traffic := c.Load(t, c.Running(), cluster.Traffic{})
	traffic.AwaitStarted(t, seconds/2)
	c.Add(t)
	after := c.AwaitServing(t)
	traffic.AwaitStarted(t, seconds/2)
	node.App.Release(t, "gate")
	traffic.Finish(t)
	moved := 0
	for shard, asking := range hanging {
		resp := asking.Response(t)
		switch {
		case after.Owner(shard) == node.ID:
			if !resp.OK() {
				t.Errorf("shard %d stayed, its request got %d %s %s", shard, resp.Status, resp.Error, resp.Detail)
			}
		default:
			moved++
			if resp.Status != http.StatusBadGateway || resp.Error != "shard-moved" {
				t.Errorf("shard %d moved, its request got %d %s %s, want 502 draining", shard, resp.Status, resp.Error, resp.Detail)
			}
		}
	}
	if moved == 0 {
		t.Error("no shard moved: nothing was tested")
	}
}

// TestSlowRequestsFinishBeforeTheirShardMoves has a request in every shard of a node,
// slower than a round and faster than the drain timeout. The node leaves, and each
// request gets its complete response.
func TestSlowRequestsFinishBeforeTheirShardMoves(t *testing.T) {
	t.Parallel() // it waits for drains most of the time
	c := start(t, 3)
	node := c.Follower(t)
	var slow []*cluster.AsyncRequest
	for i, key := range c.AwaitServing(t).Keys(node.ID, 1) {
		// Half of them at the leaving node itself, half through another.
		at := []*cluster.Node{node, c.Others(node)[0]}[i%2]
		slow = append(slow, c.SendAsync(t, at, load.Request{
			Key: key, Method: "POST", Header: map[string]string{"App-Hang": "gate", "App-Chunks": "10", "App-Delay": "50ms", "App-Size": "5000"},
		}))
	}
	node.App.AwaitHanging(t, "gate", len(slow))
	traffic := c.Load(t, c.Others(node), cluster.Traffic{})
	traffic.AwaitStarted(t, seconds/2)
	node.Terminate(t)
	c.Others(node)[0].AwaitStatus(t, "a map without "+node.ID+" is proposed", func(status cluster.Status) bool { return status.Proposed > status.Epoch })
	node.App.Release(t, "gate")
	node.AwaitExit(t, 0)
	c.AwaitServing(t)
	traffic.AwaitStarted(t, seconds/2)
	traffic.Finish(t)
	for _, asking := range slow {
		if resp := asking.Response(t); !resp.OK() || resp.Bytes != 5000 {
			t.Errorf("slow request: %+v", resp)
		}
	}
}
