//go:build linux

package e2e_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"shardway/diagnosis"
	"shardway/e2e/kit/cluster"
	"shardway/e2e/kit/load"
)

// TestCachingAppsLoseNoWrites drains, uncordons and restarts each node, while the apps,
// which have no hooks, continue with their caches. Each acknowledged write raises the
// counter of its key. A lower counter than before was raised from an old copy, and writes
// are lost. With --returns any that happens.
func TestCachingAppsLoseNoWrites(t *testing.T) {
	t.Parallel() // it waits most of the time
	for _, returns := range []string{"after-restart", "any"} {
		t.Run(returns, func(t *testing.T) {
			t.Parallel()
			c := cluster.Start(t, cluster.Options{
				Binaries: binaries(t), Nodes: 3, Shards: shards, AppFlags: []string{"-cache", t.TempDir()},
				Flags: []string{"--returns", returns, "--health", "/health", "--health-interval", "100ms"},
			})
			writers := startCounting(t, c)
			for _, node := range c.Nodes() {
				writers.awaitRound(t)
				drainNode(t, c, node)
				writers.awaitRound(t)
				uncordon(t, c, node)
				writers.awaitRound(t)
				forgetAll(t, c)
			}
			drained := writers.end()
			writers = startCounting(t, c)
			for _, node := range c.Nodes() {
				writers.awaitRound(t)
				node.Stop(t)
				writers.awaitRound(t)
				node.Start(t)
				c.AwaitServing(t)
				writers.awaitRound(t)
				forgetAll(t, c)
			}
			restarted := writers.end()
			t.Logf("%d writes acknowledged with drains, %d of them lost; %d with restarts, %d of them lost", drained.acknowledged, drained.lost, restarted.acknowledged, restarted.lost)
			if wantLoss := returns == "any"; drained.lost > 0 != wantLoss || restarted.lost > 0 != wantLoss {
				t.Errorf("lost writes: %d with drains, %d with restarts, want some: %v", drained.lost, restarted.lost, wantLoss)
			}
		})
	}
}

// TestShardsReturnToRestartedApp drains a node and restarts its app. The node detects the
// restart, and all its shards return.
func TestShardsReturnToRestartedApp(t *testing.T) {
	t.Parallel() // it waits most of the time
	c := start(t, 3, "--returns", "after-restart", "--health", "/health", "--health-interval", "100ms")
	node := c.Follower(t)
	before := c.AwaitServing(t)
	drainNode(t, c, node)
	node.App.Kill(t)
	node.AwaitStatus(t, "its app is unhealthy", func(status cluster.Status) bool { return status.Member(node.ID).App == "unhealthy" })
	node.App.Start(t)
	node.AwaitStatus(t, "its app is healthy", func(status cluster.Status) bool { return status.Member(node.ID).App != "unhealthy" })
	after := uncordon(t, c, node)
	for s := range before.Shards {
		if before.Owner(s) == node.ID && after.Owner(s) != node.ID {
			t.Errorf("shard %d did not return to node %s, whose app has restarted", s, node.ID)
		}
	}
}

// TestShardsDoNotReturnToAppThatOnlyClosedItsPort drains a node whose app closes its port
// and opens it again, with its old cache. An app that reports its instance may close its
// connections, too.
func TestShardsDoNotReturnToAppThatOnlyClosedItsPort(t *testing.T) {
	t.Parallel() // it waits most of the time
	for _, named := range []bool{false, true} {
		t.Run(fmt.Sprintf("named %v", named), func(t *testing.T) {
			t.Parallel()
			flags := []string{"-cache", t.TempDir()}
			if named {
				flags = append(flags, "-instance")
			}
			c := cluster.Start(t, cluster.Options{
				Binaries: binaries(t), Nodes: 3, Shards: shards, AppFlags: flags,
				Flags: []string{"--returns", "after-restart", "--health", "/health", "--health-interval", "100ms"},
			})
			node := c.Follower(t)
			before := c.AwaitServing(t)
			writers := startCounting(t, c)
			writers.awaitRound(t)
			drainNode(t, c, node)
			writers.awaitRound(t)
			node.App.ClosePort(t, 3*time.Second, named)
			node.AwaitStatus(t, "its app is unhealthy", func(status cluster.Status) bool { return status.Member(node.ID).App == "unhealthy" })
			node.AwaitStatus(t, "its app is healthy", func(status cluster.Status) bool { return status.Member(node.ID).App != "unhealthy" })
			after := uncordon(t, c, node)
			writers.awaitRound(t)
			for s := range before.Shards {
				if before.Owner(s) == node.ID && after.Owner(s) == node.ID {
					t.Errorf("shard %d returned to node %s, whose app has not restarted", s, node.ID)
				}
			}
			if got := writers.end(); got.lost > 0 {
				t.Errorf("%d of %d acknowledged writes lost", got.lost, got.acknowledged)
			}
		})
	}
}

// TestStaleReturnIsReportedUntilAppRestarts drains two nodes with caching apps one after
// the other. The shards that return to the first have no other possible owner.
func TestStaleReturnIsReportedUntilAppRestarts(t *testing.T) {
	t.Parallel() // it waits most of the time
	c := cluster.Start(t, cluster.Options{
		Binaries: binaries(t), Nodes: 2, Shards: shards, AppFlags: []string{"-cache", t.TempDir()},
		Flags: []string{"--returns", "after-restart", "--health", "/health", "--health-interval", "100ms"},
	})
	a, b := c.Nodes()[0], c.Nodes()[1]
	before := c.AwaitServing(t)
	force := func(verb string, n *cluster.Node) {
		b.PerformAction(t, verb, map[string][]string{"node": {n.ID}, "force": {"true"}})
	}
	owns := func(n *cluster.Node, want int) {
		t.Helper()
		cluster.Await(t, fmt.Sprintf("%s owns %d shards", n.ID, want), func() error {
			shardMap, err := b.Map(t.Context())
			if got := shardMap.Counts()[n.ID]; err == nil && got != want {
				err = fmt.Errorf("%d", got)
			}
			return err
		})
	}
	first := before.Counts()[a.ID]
	force("drain", a)
	owns(b, shards)
	b.PerformAction(t, "uncordon", map[string][]string{"node": {a.ID}})
	owns(a, shards-first)
	force("drain", b)
	owns(a, shards)
	reported := func(status cluster.Status) bool {
		return slices.ContainsFunc(status.Findings, func(finding diagnosis.Finding) bool {
			return finding.Code == diagnosis.StaleReturn && strings.Contains(finding.Text, "app of node "+a.ID)
		})
	}
	key := before.Keys(a.ID, 1)[0]
	for _, n := range c.Nodes() {
		n.AwaitStatus(t, "it reports the stale return", reported)
		for _, command := range [][]string{{"shards"}, {"locate", key}} {
			out, code := shardway(t, append(command, "--admin", n.Admin)...)
			if code != 0 || !strings.Contains(out, "stale-return") || !strings.Contains(out, "shardway app-restarted "+a.ID) {
				t.Errorf("%v at %s: exit %d, want the stale return and its remedy:\n%s", command, n.ID, code, out)
			}
		}
	}
	if out, code := shardway(t, "app-restarted", a.ID, "--admin", b.Admin); code != 0 {
		t.Fatalf("app-restarted: exit %d, %s", code, out)
	}
	for _, n := range c.Nodes() {
		n.AwaitStatus(t, "it no longer reports the stale return", func(status cluster.Status) bool { return !reported(status) })
		if out, _ := shardway(t, "locate", key, "--admin", n.Admin); strings.Contains(out, "stale-return") {
			t.Errorf("locate at %s still prints:\n%s", n.ID, out)
		}
	}
}

// drainNode drains a node, and waits until it owns no shards.
func drainNode(t *testing.T, c *cluster.Cluster, node *cluster.Node) {
	t.Helper()
	other := c.Others(node)[0]
	other.PerformAction(t, "drain", map[string][]string{"node": {node.ID}})
	cluster.Await(t, "no shard is left at "+node.ID, func() error {
		shardMap, err := other.Map(t.Context())
		if err == nil && shardMap.Counts()[node.ID] > 0 {
			err = fmt.Errorf("it owns %d shards", shardMap.Counts()[node.ID])
		}
		return err
	})
}

// uncordon withdraws the drain of a node, and waits until the map is balanced.
func uncordon(t *testing.T, c *cluster.Cluster, node *cluster.Node) cluster.Map {
	t.Helper()
	c.Others(node)[0].PerformAction(t, "uncordon", map[string][]string{"node": {node.ID}})
	return c.AwaitServing(t)
}

// forgetAll clears the caches of all apps and reports that to the cluster. Otherwise the
// third drained node could move no shard that was already on all nodes.
func forgetAll(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	for _, node := range c.Nodes() {
		node.App.ClearCache(t)
		if out, code := shardway(t, "app-restarted", node.ID, "--admin", node.Admin); code != 0 {
			t.Fatalf("app-restarted: exit %d, %s", code, out)
		}
	}
}

// counterLoad increments the counters of some keys in turn.
type counterLoad struct {
	stop func()
	done chan struct{}

	mu     sync.Mutex
	rounds int // completed rounds
	counts counts
}

// counts contains the number of acknowledged writes, and of those whose counter was not
// higher than before.
type counts struct{ acknowledged, lost int }

// startCounting starts a counterLoad, which ends with the test.
func startCounting(t *testing.T, c *cluster.Cluster) *counterLoad {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	w := &counterLoad{stop: stop, done: make(chan struct{})}
	keys := load.KeysIn(shards, 1, func(int) bool { return true })
	addrs := cluster.Addrs(c.Nodes())
	go func() { // ends with stop
		defer close(w.done)
		w.run(ctx, keys, addrs)
	}()
	t.Cleanup(func() { stop(); <-w.done })
	return w
}

// run increments the counters until ctx ends.
func (w *counterLoad) run(ctx context.Context, keys, addrs []string) {
	client := &http.Client{Timeout: 10 * time.Second}
	defer client.CloseIdleConnections()
	last := make(map[string]uint64)
	for n := 0; ctx.Err() == nil; n++ {
		key := keys[n%len(keys)]
		count, ok := increment(ctx, client, addrs[n/len(keys)%len(addrs)], key)
		w.mu.Lock()
		if ok {
			w.counts.acknowledged++
			if before := last[key]; count <= before {
				w.counts.lost++
			}
			last[key] = count
		}
		if n%len(keys) == len(keys)-1 {
			w.rounds++
		}
		w.mu.Unlock()
	}
}

// increment increments the counter of a key. It returns the new count, and whether the write was
// acknowledged.
func increment(ctx context.Context, client *http.Client, addr, key string) (count uint64, ok bool) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+addr+"/", http.NoBody)
	if err != nil {
		return 0, false
	}
	req.Header.Set("X-Shard-Key", key)
	resp, err := client.Do(req)
	if err != nil {
		return 0, false
	}
	_ = resp.Body.Close()
	count, err = strconv.ParseUint(resp.Header.Get("App-Count"), 10, 64)
	return count, err == nil && resp.StatusCode == http.StatusOK
}

// awaitRound waits until every key was written once more at each node.
func (w *counterLoad) awaitRound(t *testing.T) {
	t.Helper()
	w.mu.Lock()
	until := w.rounds + 4
	w.mu.Unlock()
	cluster.Await(t, "all keys are written", func() error {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.rounds < until {
			return fmt.Errorf("%d of %d rounds", w.rounds, until)
		}
		return nil
	})
}

// end stops the load and returns its result.
func (w *counterLoad) end() counts {
	w.stop()
	<-w.done
	return w.counts
}
