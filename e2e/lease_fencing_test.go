//go:build linux

package e2e_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"shardway/e2e/kit/cluster"
	"shardway/e2e/kit/history"
	"shardway/e2e/kit/linear"
	"shardway/e2e/kit/load"
	"shardway/e2e/kit/store"
)

// TestStoreRejectsWritesOfPausedOwner shows the first exception of docs/guarantees.md: a
// node is paused while its app continues concurrently with the next owner. The store
// rejects operations with the old epoch, and clients observe one register per key. A
// store that ignores epochs is overwritten, which the checkers find and the cluster
// cannot prevent.
func TestStoreRejectsWritesOfPausedOwner(t *testing.T) {
	t.Parallel() // it waits for timeouts most of the time
	registerStore, err := store.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { must(t, registerStore.Close()) }()
	c := cluster.Start(t, cluster.Options{
		Binaries: binaries(t), Nodes: 3, Shards: shards, AppFlags: []string{"--store", registerStore.URL()},
	})
	owner := c.Follower(t)
	keys := c.AwaitServing(t).Keys(owner.ID, 1)[:7]
	keys, open := keys[:6], keys[6]
	others := c.Others(owner)
	var responses []history.Response
	ask := func(node *cluster.Node, key, mode, value string) history.Response {
		resp := c.SendRequest(t, node, operation(key, mode, value))
		if !resp.OK() {
			t.Errorf("%s %q: %d %s %s", resp.Method, key, resp.Status, resp.Error, resp.Detail)
		}
		responses = append(responses, resp)
		return resp
	}
	for _, node := range others {
		node.App.Release(t, "gate") // an aborted read is retried at the next owner, and must not hang there
	}
	var late []*cluster.AsyncRequest
	for i, key := range keys {
		ask(others[0], key, "memory", "old-"+key)
		// Half of the requests will write, the others read.
		req := operation(key, "store", []string{"late-" + key, ""}[i%2])
		req.Header["App-Hang"] = "gate"
		late = append(late, c.SendAsync(t, owner, req))
	}
	ask(others[0], open, "unfenced", "old-"+open)
	req := operation(open, "unfenced", "late-"+open)
	req.Header["App-Hang"] = "gate"
	late = append(late, c.SendAsync(t, owner, req))
	owner.App.AwaitHanging(t, "gate", len(late))
	owner.Pause(t)
	c.AwaitServedBy(t, others...)
	for _, key := range keys {
		if resp := ask(others[0], key, "memory", ""); resp.Value != "old-"+key {
			t.Errorf("the next owner loaded %q, want %q", resp.Value, "old-"+key)
		}
		ask(others[1], key, "memory", "new-"+key)
	}
	ask(others[1], open, "unfenced", "new-"+open)
	owner.App.Release(t, "gate")
	cluster.Await(t, "the store has rejected the late fenced writes, and executed the unfenced ones", func() error {
		log := registerStore.Applied()
		if n := registerStore.FencedCount(); n != len(keys) || log[len(log)-1].Value != "late-"+open {
			return fmt.Errorf("%d of %d refused, the last write is %+v", n, len(keys), log[len(log)-1])
		}
		return nil
	})
	if resp := ask(others[1], open, "unfenced", ""); resp.Value != "new-"+open {
		t.Errorf("the next owner reads %q in its memory, want %q", resp.Value, "new-"+open)
	}
	owner.Continue(t)
	c.AwaitServing(t)
	overwritten := late[len(keys)].Response(t)
	for i, asking := range late[:len(keys)] {
		resp := asking.Response(t)
		if want := "new-" + keys[i]; resp.OK() && (!resp.Safe() || resp.Value != want) {
			t.Errorf("late %s got %d %q", resp.Method, resp.Status, resp.Value)
		}
		responses = append(responses, resp)
	}
	for _, key := range keys {
		for _, mode := range []string{"memory", "store"} {
			if resp := ask(owner, key, mode, ""); resp.Value != "new-"+key {
				t.Errorf("key %q in the %s is %q afterwards, want %q", key, mode, resp.Value, "new-"+key)
			}
		}
	}
	report := c.Check(t)
	if report.PauseOverlaps < len(late) {
		t.Errorf("report = %v: want an overlap for each of %d keys", report, len(late))
	}
	if n := report.OverlapsByShard[uint32(load.ShardOf(open, shards))]; n == 0 {
		t.Errorf("the report lacks the overlap in the shard of the unfenced register: %v", report.OverlapsByShard)
	}
	runs, fenced := c.AwaitRuns(t), slices.DeleteFunc(slices.Clone(responses), func(resp history.Response) bool { return resp.Key == open })
	if err := linear.Check(linear.Ops(fenced, runs), linear.Options{Applied: registerStore.Applied()}); err != nil {
		t.Error(err)
	}
	if err := linear.Check(linear.Ops(append(responses, overwritten), runs), linear.Options{Applied: registerStore.Applied()}); err == nil || !strings.Contains(err.Error(), open) {
		t.Errorf("the checker does not find the overwritten unfenced register: %v", err)
	}
}

// operation returns a write of a value to the register of a key, or a read if value is
// empty.
func operation(key, mode, value string) load.Request {
	req := load.Request{Key: key, Header: map[string]string{"App-Register": mode}}
	if value != "" {
		req.Method, req.Body = "POST", []byte(value)
	}
	return req
}
