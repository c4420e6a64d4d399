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
		l := c.Load(t, c.Others(held), cluster.Traffic{})
		l.AwaitStarted(t, seconds/2)
		before := c.AwaitServing(t)
		mended := held.RecordFault(history.LogDelayed)
		held.PeerProxy.HoldLog()
		c.Add(t) // it does not receive this map change
		cluster.Await(t, "the log is held", func() error {
			if held.PeerProxy.HeldStreams() == 0 {
				return errNotYet
			}
			return nil
		})
		held.AwaitStatus(t, "has no lease", func(s cluster.Status) bool { return s.LeaseMS == 0 })
		alone := history.Now()
		without := c.AwaitServedBy(t, c.Others(held)...)
		l.AwaitStarted(t, seconds/2)
		s, err := held.Status(t.Context())
		if err != nil || s.LeaseMS != 0 || s.Epoch != before.Epoch || s.Proposed != before.Epoch {
			t.Errorf("without the log, %s has %+v, %v, want no lease and epoch %d", held.ID, s, err, before.Epoch)
		}
		released := history.Now()
		held.PeerProxy.Release()
		mended()
		wantMoves(t, c, without, c.AwaitServing(t))
		l.AwaitStarted(t, seconds/2)
		l.Finish(t)
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
	n := c.Node("a")
	before := c.AwaitServing(t)
	hanging := make(map[int]*cluster.AsyncRequest)
	for _, key := range before.Keys(n.ID, 1) {
		hanging[load.ShardOf(key, shards)] = c.SendAsync(t, n, load.Request{Key: key, Method: "POST", Header: map[string]string{"App-Hang": "gate"}})
	}
	n.App.AwaitHanging(t, "gate", len(hanging))
	l := c.Load(t, c.Running(), cluster.Traffic{})
	l.AwaitStarted(t, seconds/2)
	c.Add(t)
	after := c.AwaitServing(t)
	l.AwaitStarted(t, seconds/2)
	n.App.Release(t, "gate")
	l.Finish(t)
	moved := 0
	for shard, asking := range hanging {
		a := asking.Response(t)
		switch {
		case after.Owner(shard) == n.ID:
			if !a.OK() {
				t.Errorf("shard %d stayed, its request got %d %s %s", shard, a.Status, a.Error, a.Detail)
			}
		default:
			moved++
			if a.Status != http.StatusBadGateway || a.Error != "shard-moved" {
				t.Errorf("shard %d moved, its request got %d %s %s, want 502 draining", shard, a.Status, a.Error, a.Detail)
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
	n := c.Follower(t)
	var slow []*cluster.AsyncRequest
	for i, key := range c.AwaitServing(t).Keys(n.ID, 1) {
		// Half of them at the leaving node itself, half through another.
		at := []*cluster.Node{n, c.Others(n)[0]}[i%2]
		slow = append(slow, c.SendAsync(t, at, load.Request{
			Key: key, Method: "POST", Header: map[string]string{"App-Hang": "gate", "App-Chunks": "10", "App-Delay": "50ms", "App-Size": "5000"},
		}))
	}
	n.App.AwaitHanging(t, "gate", len(slow))
	l := c.Load(t, c.Others(n), cluster.Traffic{})
	l.AwaitStarted(t, seconds/2)
	n.Terminate(t)
	c.Others(n)[0].AwaitStatus(t, "a map without "+n.ID+" is proposed", func(s cluster.Status) bool { return s.Proposed > s.Epoch })
	n.App.Release(t, "gate")
	n.AwaitExit(t, 0)
	c.AwaitServing(t)
	l.AwaitStarted(t, seconds/2)
	l.Finish(t)
	for _, asking := range slow {
		if a := asking.Response(t); !a.OK() || a.Bytes != 5000 {
			t.Errorf("slow request: %+v", a)
		}
	}
}
