//go:build linux

package e2e_test

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"shardway/e2e/kit/cluster"
	"shardway/e2e/kit/load"
)

// wantAcquiringOutage waits until every node reports that the app of a node does not
// acquire, and `status` exits with 3 at each of them.
func wantAcquiringOutage(t *testing.T, c *cluster.Cluster, text string) {
	t.Helper()
	left := c.Running() // all are asked in turn, since the outage may be over after a few seconds
	cluster.AwaitFor(t, time.Minute, "every node reports the outage, and status ends with 3", func() (err error) {
		left = slices.DeleteFunc(left, func(node *cluster.Node) bool {
			out, code := shardway(t, "status", "--admin", node.Admin)
			if code == 3 && strings.Contains(out, "OUTAGE acquiring: "+text) {
				return true
			}
			err = fmt.Errorf("node %s: exit %d, %s", node.ID, code, out)
			return false
		})
		return err
	})
}

// TestShardsLeaveAppWithHangingAcquire uncordons a node whose app never responds to
// acquire. Every node reports the outage, the other nodes take over all shards, and every
// key is served. The node regains its share only when its app acquires again.
func TestShardsLeaveAppWithHangingAcquire(t *testing.T) {
	t.Parallel() // it waits for back-offs most of the time
	c := startWithCounters(t, 3, []string{"--through"}, "--queue-wait", "40s", "--acquire-timeout", "4s")
	node, at := c.Node("c"), c.Node("b")
	share := countOwned(c.AwaitServing(t), node)
	if out, code := shardway(t, "drain", node.ID, "--wait", "--admin", at.Admin); code != 0 {
		t.Fatalf("drain: exit %d, %s", code, out)
	}
	node.App.SetHookFault(t, "acquire", "hang")
	if out, code := shardway(t, "uncordon", node.ID, "--admin", at.Admin); code != 0 {
		t.Fatalf("uncordon: exit %d, %s", code, out)
	}
	wantAcquiringOutage(t, c, "the app of node c ")
	c.AwaitShards(t, c.Node("a"), at)
	counts := map[string]uint64{}
	keys := []string{"k1", "k2", "k3", "k4", "k5", "k6", "k7", "k8"}
	postAndCount(t, c, node, counts, 1, keys...)
	shardMap, err := at.Map(t.Context())
	must(t, err)
	if owned := countOwned(shardMap, node); owned > 0 {
		t.Errorf("c owns %d shards though its app acquires none", owned)
	}
	node.App.SetHookFault(t, "acquire", "none")
	cluster.AwaitFor(t, 3*time.Minute, "c owns its share", func() error {
		shardMap, err := at.Map(t.Context())
		if err == nil && countOwned(shardMap, node) < share-1 {
			err = fmt.Errorf("it owns %d of %d", countOwned(shardMap, node), share)
		}
		return err
	})
	c.AwaitServing(t)
	postAndCount(t, c, node, counts, 1, keys...)
}

// TestShardLeavesAppThatCannotAcquireIt makes an app lose one shard that it cannot
// acquire again, while it serves all its other shards. Every node reports the outage.
// After at least three attempts the shard moves to another node, which serves its queued
// request. The other shards stay.
func TestShardLeavesAppThatCannotAcquireIt(t *testing.T) {
	t.Parallel() // it waits for back-offs most of the time
	c := startWithCounters(t, 3, []string{"--through"}, "--queue-wait", "40s")
	node, at := c.Node("c"), c.Node("b")
	shardMap := c.AwaitServing(t)
	share, keys, counts := countOwned(shardMap, node), shardMap.Keys(node.ID, 1), map[string]uint64{}
	key := keys[0]
	shard := load.ShardOf(key, shards)
	postAndCount(t, c, at, counts, 1, keys...)
	node.App.SetHookFault(t, "acquire", fmt.Sprintf("failed:%d", shard))
	loseShard(t, node, shard, shardMap.Epoch)
	waiting := c.SendAsync(t, at, load.Request{Key: key, Method: "POST"})
	wantAcquiringOutage(t, c, "the app of node c does not acquire ")
	counts[key]++
	if resp := waiting.Response(t); !resp.OK() || resp.Count != counts[key] {
		t.Errorf("the request that waited: status %d (%s), count %d, want %d", resp.Status, resp.Detail, resp.Count, counts[key])
	}
	shardMap = c.AwaitServing(t)
	if shardMap.Owner(shard) == node.ID || countOwned(shardMap, node) != share-1 {
		t.Errorf("node %s owns shard %d, and c %d of %d shards", shardMap.Owner(shard), shard, countOwned(shardMap, node), share)
	}
	calls, err := node.App.HookCalls(t.Context())
	must(t, err)
	if failed := failedAcquires(calls, shard); failed < 3 || failed > 30 {
		t.Errorf("the app was asked %d times for the shard, want at least 3, and pauses between them", failed)
	}
	cluster.Await(t, "no outage is left", func() error {
		if out, code := shardway(t, "status", "--admin", at.Admin); code == 3 {
			return errors.New(out)
		}
		return nil
	})
	postAndCount(t, c, at, counts, 1, keys...)
	if shardMap := c.AwaitServing(t); shardMap.Owner(shard) == node.ID {
		t.Error("the shard is back though its app cannot acquire it")
	}
}

// failedAcquires returns the number of failed attempts of an app to acquire a shard.
func failedAcquires(calls []cluster.HookCall, shard int) (count int) {
	for _, one := range calls {
		if one.Hook == "acquire" && one.Shard == shard && one.Err != "" {
			count++
		}
	}
	return count
}

// loseShard makes the app of a node drop a shard of this or an earlier epoch, as if its
// state were damaged. The app then responds to its next request with 421 and
// Shardway-Acquire.
func loseShard(t *testing.T, node *cluster.Node, shard int, epoch uint64) {
	t.Helper()
	body := strings.NewReader(fmt.Sprintf(`{"seq":1,"disk":"test","shards":[{"shard":%d,"epoch":%d}]}`, shard, epoch))
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+node.App.Addr+"/_state/lost", body)
	must(t, err)
	req.Header.Set("Shardway-Hook", "lost")
	resp, err := http.DefaultClient.Do(req)
	must(t, err)
	must(t, resp.Body.Close())
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("lost: %s", resp.Status)
	}
}
