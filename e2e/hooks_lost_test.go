//go:build linux

package e2e_test

import (
	"fmt"
	"syscall"
	"testing"

	"shardway/e2e/kit/cluster"
	"shardway/e2e/kit/load"
)

// postAndCount increments the counter of each key n times through one node. It checks the responses, and
// updates the expected counts.
func postAndCount(t *testing.T, c *cluster.Cluster, node *cluster.Node, counts map[string]uint64, n int, keys ...string) {
	t.Helper()
	for _, key := range keys {
		for range n {
			counts[key]++
			if resp := c.SendRequest(t, node, load.Request{Key: key, Method: "POST"}); !resp.OK() || resp.Count != counts[key] {
				t.Fatalf("%s at %s: status %d (%s), count %d, want %d", key, node.ID, resp.Status, resp.Detail, resp.Count, counts[key])
			}
		}
	}
}

// TestKillLosesOnlyUnwrittenState kills a node whose app has written part of its
// counters. The next owners continue from exactly that part, and learn that nothing was
// released. Other apps lose nothing.
func TestKillLosesOnlyUnwrittenState(t *testing.T) {
	t.Parallel() // it waits for elections most of the time
	c := startWithCounters(t, 3, nil)
	shardMap := c.AwaitServing(t)
	victim, counts := c.Follower(t), map[string]uint64{}
	at := c.Others(victim)[0]
	var lost, kept []string
	for _, node := range c.Running() {
		if node == victim {
			lost = shardMap.Keys(node.ID, 1)[:10]
			continue
		}
		kept = append(kept, shardMap.Keys(node.ID, 1)[:10]...)
	}
	postAndCount(t, c, at, counts, 3, append(lost, kept...)...)
	victim.App.Flush(t)
	postAndCount(t, c, at, counts, 2, append(lost, kept...)...)
	victim.Kill(t)
	for _, key := range lost {
		counts[key] -= 2
	}
	postAndCount(t, c, at, counts, 1, append(lost, kept...)...)
	for _, key := range lost {
		wantAcquired(t, c, load.ShardOf(key, shards), victim.ID, false)
	}

	// It returns to an app with outdated shards, and uses none of them.
	victim.Start(t)
	c.AwaitServing(t)
	postAndCount(t, c, at, counts, 1, append(lost, kept...)...)
	c.Check(t)
}

// wantAcquired checks the last acquire call for a shard at its owner.
func wantAcquired(t *testing.T, c *cluster.Cluster, shard int, from string, released bool) {
	t.Helper()
	for _, node := range c.Running() {
		shardMap, err := node.Map(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if shardMap.Owner(shard) != node.ID {
			continue
		}
		var last *cluster.HookCall
		for _, call := range acquireCalls(t, node) {
			if call.Shard == shard {
				last = &call
			}
		}
		if last == nil || last.From != from || last.Released != released || last.Again {
			t.Errorf("%s received %+v for shard %d, want it from %s, released %v", node.ID, last, shard, from, released)
		}
	}
}

// acquireCalls returns all acquire calls of the app of a node.
func acquireCalls(t *testing.T, node *cluster.Node) (all []cluster.HookCall) {
	t.Helper()
	calls, err := node.App.HookCalls(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, call := range calls {
		if call.Hook == "acquire" {
			all = append(all, call)
		}
	}
	return all
}

// TestRestartedAppIsAskedToAcquire kills and restarts an app while its node continues.
// The app reports that it holds no shards, acquires them, and continues with the last
// written counters. The same happens if no health check has failed in the meantime.
func TestRestartedAppIsAskedToAcquire(t *testing.T) {
	t.Parallel() // it waits most of the time
	c := startWithCounters(t, 3, nil)
	shardMap := c.AwaitServing(t)
	node, counts := c.Follower(t), map[string]uint64{}
	at, keys := c.Others(node)[0], shardMap.Keys(node.ID, 1)[:5]
	for range 3 {
		postAndCount(t, c, at, counts, 2, keys...)
		node.App.Flush(t)
		node.App.Kill(t)
		node.App.Start(t)
		postAndCount(t, c, at, counts, 2, keys...)
		c.AwaitServing(t)
	}
	c.Check(t)
}

// TestRestartedNodeKeepsStateOfItsApp restarts a node before other nodes take over its
// shards. Its app, which has written nothing, is asked to acquire the shards that it
// holds, and loses no state.
func TestRestartedNodeKeepsStateOfItsApp(t *testing.T) {
	t.Parallel() // it waits for elections most of the time
	c := startWithCounters(t, 1, nil)
	node, counts := c.Node("a"), map[string]uint64{}
	keys := c.AwaitServing(t).Keys("a", 1)[:10]
	postAndCount(t, c, node, counts, 3, keys...)
	before := acquireCalls(t, node)
	node.Kill(t)
	node.Start(t)
	c.AwaitServing(t)
	postAndCount(t, c, node, counts, 1, keys...)
	again := map[int]bool{}
	for _, call := range acquireCalls(t, node)[len(before):] {
		again[call.Shard] = call.Again
		if !call.Again {
			t.Errorf("received %+v, although it holds the shard", call)
		}
	}
	if len(again) != shards {
		t.Errorf("%d shards were acquired again, want all %d", len(again), shards)
	}
	c.Check(t)
}

// TestHungAppBlocksOnlyItsNode pauses an app until its node gives up its shards. They
// move without a release, and continue from the state that each POST has written.
func TestHungAppBlocksOnlyItsNode(t *testing.T) {
	t.Parallel() // it waits most of the time
	c := startWithCounters(t, 3, []string{"--through"}, "--health", "/", "--health-timeout", "500ms")
	shardMap := c.AwaitServing(t)
	node, counts := c.Follower(t), map[string]uint64{}
	at := c.Others(node)[0]
	here, elsewhere := shardMap.Keys(node.ID, 1)[:5], shardMap.Keys(at.ID, 1)[:5]
	postAndCount(t, c, at, counts, 2, append(here, elsewhere...)...)
	node.App.Signal(t, syscall.SIGSTOP)
	postAndCount(t, c, at, counts, 1, elsewhere...)
	cluster.Await(t, "its shards are elsewhere", func() error {
		shardMap, err := at.Map(t.Context())
		if err == nil && shardMap.Counts()[node.ID] > 0 {
			err = fmt.Errorf("%d are not", shardMap.Counts()[node.ID])
		}
		return err
	})
	postAndCount(t, c, at, counts, 1, append(here, elsewhere...)...)
	for _, key := range here {
		wantAcquired(t, c, load.ShardOf(key, shards), node.ID, false)
	}
	node.App.Signal(t, syscall.SIGCONT)
	c.AwaitServing(t)
	postAndCount(t, c, at, counts, 1, append(here, elsewhere...)...)
}
