//go:build linux

package e2e_test

import (
	"testing"

	"shardway/e2e/kit/cluster"
	"shardway/e2e/kit/history"
	"shardway/e2e/kit/load"
	"shardway/e2e/kit/store"
)

// TestEmbeddedApps runs the apps of a cluster in the processes of its nodes. kill -9,
// SIGSTOP, a rolling restart and a join under load fail no request, and a key never runs
// in two apps at once.
func TestEmbeddedApps(t *testing.T) {
	t.Parallel() // it waits for elections and drains most of the time
	c := cluster.Start(t, cluster.Options{Binaries: binaries(t), Nodes: 3, Shards: shards, Embedded: true})
	checkKill(t, c, c.Follower(t))
	checkKill(t, c, c.Leader(t))

	stopped := c.Follower(t)
	others := c.Others(stopped)
	traffic := c.Load(t, others, cluster.Traffic{})
	traffic.AwaitStarted(t, seconds/2)
	stopped.Pause(t)
	traffic.AwaitStarted(t, 3*seconds)
	c.AwaitServedBy(t, others...)
	stopped.Continue(t)
	c.AwaitServing(t)
	traffic.Finish(t)

	traffic = c.Load(t, c.Running(), cluster.Traffic{})
	for _, node := range c.Running() {
		node.Stop(t)
		traffic.AwaitStarted(t, 100)
		node.Start(t)
		c.AwaitServing(t)
	}
	c.Add(t)
	c.AwaitServing(t)
	traffic.AwaitStarted(t, 100)
	traffic.Finish(t)
}

// TestNextOwnerWaitsForEmbeddedApp stops a node while a request hangs in its embedded
// app. The shard moves after the app has ended the request, when its context is canceled.
// The run of the next owner begins after that.
func TestNextOwnerWaitsForEmbeddedApp(t *testing.T) {
	t.Parallel() // it waits for elections and drains most of the time
	c := cluster.Start(t, cluster.Options{
		Binaries: binaries(t), Nodes: 3, Shards: shards, Embedded: true, Flags: []string{"--drain-timeout", "1s"},
	})
	owner := c.Follower(t)
	key := c.AwaitServing(t).Keys(owner.ID, 1)[0]
	other := c.Others(owner)[0]
	hung := c.SendAsync(t, other, load.Request{Key: key, Method: "POST", ID: "hung", Header: map[string]string{"App-Hang": "gate"}})
	owner.App.AwaitHanging(t, "gate", 1)
	owner.Terminate(t)
	other.AwaitStatus(t, "its shards are to move", func(status cluster.Status) bool { return status.Proposed > status.Epoch })
	next := c.SendAsync(t, other, load.Request{Key: key, Method: "POST", ID: "next"})
	if resp := hung.Response(t); resp.Status != 502 || resp.Error != "shard-moved" {
		t.Errorf("the hanging request got %d %s", resp.Status, resp.Error)
	}
	if resp := next.Response(t); !resp.OK() {
		t.Errorf("the next got %d %s", resp.Status, resp.Error)
	}
	owner.AwaitExit(t, 0)
	var first, second history.Run
	for _, run := range c.AwaitRuns(t) {
		switch run.ID {
		case "hung":
			first = run
		case "next":
			second = run
		}
	}
	if first.App != owner.ID || second.App == owner.ID || first.End == 0 || second.Start < first.End {
		t.Errorf("hung ran %+v, next %+v: want one after the other", first, second)
	}
}

// TestEmbeddedHandlersCheckTheirLease pauses a node while handlers sleep until a time
// within the pause. After the pause, the handlers wake while the node is about to abort
// them. A handler that checks its context, or embed.Err, before it writes does not write,
// however late the node cancels it. So it overwrites nothing of the next owner in a store
// that ignores epochs.
func TestEmbeddedHandlersCheckTheirLease(t *testing.T) {
	t.Parallel() // it waits for timeouts most of the time
	registerStore, err := store.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { must(t, registerStore.Close()) }()
	c := cluster.Start(t, cluster.Options{
		Binaries: binaries(t), Nodes: 3, Shards: shards, Embedded: true, AppFlags: []string{"--store", registerStore.URL()},
	})
	owner := c.Follower(t)
	keys := c.AwaitServing(t).Keys(owner.ID, 1)
	keys = keys[:min(len(keys), 12)]
	others := c.Others(owner)
	var late []*cluster.AsyncRequest
	for i, key := range keys {
		req := operation(key, "unfenced", "late-"+key)
		req.ID, req.Header["App-Late"], req.Header["App-End-Source"] = "late-"+key, "1500ms", []string{"context", "node"}[i%2]
		late = append(late, c.SendAsync(t, owner, req))
	}
	for _, key := range keys {
		cluster.Await(t, "the app has "+key, func() error {
			if owner.App.Executions(t, "late-"+key) == 0 {
				return errNotYet
			}
			return nil
		})
	}
	owner.Pause(t)
	c.AwaitServedBy(t, others...) // dead-after is longer than the sleep of the handlers
	for _, key := range keys {
		if resp := c.SendRequest(t, others[1], operation(key, "unfenced", "new-"+key)); !resp.OK() {
			t.Fatalf("the next owner of %q: %d %s", key, resp.Status, resp.Error)
		}
	}
	woke := history.Now()
	owner.Continue(t)
	cluster.Await(t, "the requests on the node have ended", func() error {
		for _, run := range c.RecordedRuns(t) {
			if run.App == owner.ID && run.End == 0 {
				return errNotYet
			}
		}
		return nil
	})
	for _, w := range registerStore.Applied() {
		if w.At >= woke {
			t.Errorf("%s wrote %q after it woke: the next owner had written before", w.Writer, w.Value)
		}
	}
	for _, asking := range late {
		if resp := asking.Response(t); resp.OK() {
			t.Errorf("late POST of %q got %d", resp.Key, resp.Status)
		}
	}
}
