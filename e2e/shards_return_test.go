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
			w := startCounting(t, c)
			for _, n := range c.Nodes() {
				w.round(t)
				drainNode(t, c, n)
				w.round(t)
				uncordon(t, c, n)
				w.round(t)
				forgetAll(t, c)
			}
			drained := w.end()
			w = startCounting(t, c)
			for _, n := range c.Nodes() {
				w.round(t)
				n.Stop(t)
				w.round(t)
				n.Start(t)
				c.AwaitServing(t)
				w.round(t)
				forgetAll(t, c)
			}
			restarted := w.end()
			t.Logf("%d writes acknowledged with drains, %d of them lost; %d with restarts, %d of them lost", drained.acknowledged, drained.lost, restarted.acknowledged, restarted.lost)
			if loses := returns == "any"; drained.lost > 0 != loses || restarted.lost > 0 != loses {
				t.Errorf("lost writes: %d with drains, %d with restarts, want some: %v", drained.lost, restarted.lost, loses)
			}
		})
	}
}

// TestShardsReturnToRestartedApp drains a node and restarts its app. The node detects the
// restart, and all its shards return.
func TestShardsReturnToRestartedApp(t *testing.T) {
	t.Parallel() // it waits most of the time
	c := start(t, 3, "--returns", "after-restart", "--health", "/health", "--health-interval", "100ms")
	n := c.Follower(t)
	before := c.AwaitServing(t)
	drainNode(t, c, n)
	n.App.Kill(t)
	n.AwaitStatus(t, "its app is unhealthy", func(s cluster.Status) bool { return s.Member(n.ID).App == "unhealthy" })
	n.App.Start(t)
	n.AwaitStatus(t, "its app is healthy", func(s cluster.Status) bool { return s.Member(n.ID).App != "unhealthy" })
	after := uncordon(t, c, n)
	for s := range before.Shards {
		if before.Owner(s) == n.ID && after.Owner(s) != n.ID {
			t.Errorf("shard %d did not return to node %s, whose app has restarted", s, n.ID)
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
			n := c.Follower(t)
			before := c.AwaitServing(t)
			w := startCounting(t, c)
			w.round(t)
			drainNode(t, c, n)
			w.round(t)
			n.App.ClosePort(t, 3*time.Second, named)
			n.AwaitStatus(t, "its app is unhealthy", func(s cluster.Status) bool { return s.Member(n.ID).App == "unhealthy" })
			n.AwaitStatus(t, "its app is healthy", func(s cluster.Status) bool { return s.Member(n.ID).App != "unhealthy" })
			after := uncordon(t, c, n)
			w.round(t)
			for s := range before.Shards {
				if before.Owner(s) == n.ID && after.Owner(s) == n.ID {
					t.Errorf("shard %d returned to node %s, whose app has not restarted", s, n.ID)
				}
			}
			if got := w.end(); got.lost > 0 {
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
			m, err := b.Map(t.Context())
			if got := m.Counts()[n.ID]; err == nil && got != want {
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
	reported := func(s cluster.Status) bool {
		return slices.ContainsFunc(s.Findings, func(f diagnosis.Finding) bool {
			return f.Code == diagnosis.StaleReturn && strings.Contains(f.Text, "app of node "+a.ID)
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
		n.AwaitStatus(t, "it reports the stale return no more", func(s cluster.Status) bool { return !reported(s) })
		if out, _ := shardway(t, "locate", key, "--admin", n.Admin); strings.Contains(out, "stale-return") {
			t.Errorf("locate at %s still prints:\n%s", n.ID, out)
		}
	}
}

func drainNode(t *testing.T, c *cluster.Cluster, n *cluster.Node) {
	t.Helper()
	other := c.Others(n)[0]
	other.PerformAction(t, "drain", map[string][]string{"node": {n.ID}})
	cluster.Await(t, "nothing is left at "+n.ID, func() error {
		m, err := other.Map(t.Context())
		if err == nil && m.Counts()[n.ID] > 0 {
			err = fmt.Errorf("it owns %d shards", m.Counts()[n.ID])
		}
		return err
	})
}

func uncordon(t *testing.T, c *cluster.Cluster, n *cluster.Node) cluster.Map {
	t.Helper()
	c.Others(n)[0].PerformAction(t, "uncordon", map[string][]string{"node": {n.ID}})
	return c.AwaitServing(t)
}

// forgetAll clears the caches of all apps and reports that to the cluster. Otherwise the
// third drained node could move no shard that was already on all nodes.
func forgetAll(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	for _, n := range c.Nodes() {
		n.App.ClearCache(t)
		if out, code := shardway(t, "app-restarted", n.ID, "--admin", n.Admin); code != 0 {
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

func (w *counterLoad) run(ctx context.Context, keys, addrs []string) {
	client := &http.Client{Timeout: 10 * time.Second}
	defer client.CloseIdleConnections()
	last := make(map[string]uint64)
	for n := 0; ctx.Err() == nil; n++ {
		key := keys[n%len(keys)]
		count, ok := raise(ctx, client, addrs[n/len(keys)%len(addrs)], key)
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

// raise returns the new count, and whether the write was acknowledged.
func raise(ctx context.Context, client *http.Client, addr, key string) (count uint64, ok bool) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+addr+"/", http.NoBody)
	if err != nil {
		return 0, false
	}
	r.Header.Set("X-Shard-Key", key)
	res, err := client.Do(r)
	if err != nil {
		return 0, false
	}
	_ = res.Body.Close()
	count, err = strconv.ParseUint(res.Header.Get("App-Count"), 10, 64)
	return count, err == nil && res.StatusCode == http.StatusOK
}

// round waits until every key was written once more at each node.
func (w *counterLoad) round(t *testing.T) {
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

func (w *counterLoad) end() counts {
	w.stop()
	<-w.done
	return w.counts
}
