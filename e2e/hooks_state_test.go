//go:build linux

package e2e_test

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"testing"

	"shardway/e2e/kit/cluster"
	"shardway/e2e/kit/history"
	"shardway/e2e/kit/load"
)

// movesVariable is the environment variable with the minimum number of shard moves. One
// round of all kinds of moves is a few hundred, and always runs.
const movesVariable = "SHARDWAY_E2E_MOVES"

// startWithCounters starts nodes whose apps keep counters from acquire to release.
func startWithCounters(t *testing.T, nodes int, appFlags []string, flags ...string) *cluster.Cluster {
	t.Helper()
	dir, err := cluster.Scratch()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return cluster.Start(t, cluster.Options{
		Binaries: binaries(t), Nodes: nodes, Shards: shards, Secret: hasSecret(t),
		Flags: append([]string{"--hooks", "/_state"}, flags...), AppFlags: append([]string{"--state", dir}, appFlags...),
	})
}

// wantExactCounts checks that the counter of each key increased by one with each POST, from its
// value in was, over all moves of its shard. Each GET must read a value that was current
// while it ran.
func wantExactCounts(t *testing.T, was map[string]uint64, responses []history.Response) {
	t.Helper()
	byKey := map[string][]history.Response{}
	for _, a := range responses {
		byKey[a.Key] = append(byKey[a.Key], a)
	}
	for key, all := range byKey {
		var counts []uint64
		for _, a := range all {
			switch {
			case a.Method == "POST" && a.OK():
				counts = append(counts, a.Count)
			case a.OK():
				before, begun := was[key], was[key]
				for _, p := range all {
					if p.Method == "POST" && p.OK() && p.DoneAt() < a.SentAt() {
						before++
					}
					if p.Method == "POST" && p.SentAt() < a.DoneAt() {
						begun++
					}
				}
				if a.Count < before || a.Count > begun {
					t.Errorf("%s read %d of %s, which was between %d and %d", a.ID, a.Count, key, before, begun)
				}
			}
		}
		slices.Sort(counts)
		for i, n := range counts {
			if n != was[key]+uint64(i)+1 {
				t.Errorf("%s: the counts %v do not continue after %d by one", key, counts, was[key])
				break
			}
		}
		was[key] += uint64(len(counts))
	}
}

// countAllMoves returns the number of shard moves so far.
func countAllMoves(c *cluster.Cluster) (n int) {
	seen := c.Maps()
	for i := 1; i < len(seen); i++ {
		for _, m := range seen[i-1].Moves(seen[i]) {
			if m.From != "" && m.To != "" {
				n++
			}
		}
	}
	return n
}

// TestCountersFollowTheirShards has apps that keep a counter for each key in memory, and
// write it only when they release its shard. Pins, drains, joins, leaves, step-downs and
// rolling restarts run under load. Each counter continues with the next number, each POST
// runs once, and no request fails. The next owner receives the note of the release.
func TestCountersFollowTheirShards(t *testing.T) {
	t.Parallel() // it waits for drains most of the time
	want, _ := strconv.Atoi(os.Getenv(movesVariable))
	c := startWithCounters(t, 3, nil)
	counts := map[string]uint64{}
	for round := 0; round == 0 || countAllMoves(c) < want; round++ {
		traffic := c.Load(t, c.Running(), cluster.Traffic{ModifyRequest: func(n int, req *load.Request) {
			if n%10 == 4 { // some requests run while their shard should move
				req.Header = map[string]string{"App-Delay": "50ms"}
			}
		}})
		moveByPlan(t, c, traffic)
		restartAll(t, c, traffic)
		traffic.AwaitStarted(t, 100)
		traffic.Finish(t)
		wantExactCounts(t, counts, traffic.Responses())
		t.Logf("%d shards have moved", countAllMoves(c))
	}
	released := 0
	for _, node := range c.Running() {
		calls, err := node.App.HookCalls(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, call := range calls {
			if call.Err != "" || call.Hook == "lost" {
				t.Errorf("%s: %+v", node.ID, call)
			}
			if call.Released {
				released++
			}
		}
	}
	if t.Logf("%d shards acquired as released", released); released == 0 {
		t.Error("no app received the release of a shard")
	}
}

// moveByPlan moves shards in all ways that operators have.
func moveByPlan(t *testing.T, c *cluster.Cluster, traffic *cluster.Load) {
	t.Helper()
	admin := c.Node("a").Admin
	do := func(args ...string) {
		t.Helper()
		traffic.AwaitStarted(t, 40)
		if out, code := shardway(t, append(args, "--admin", admin)...); code != 0 {
			t.Fatalf("%v: exit %d, %s", args, code, out)
		}
	}
	for shard := range 3 {
		for _, to := range []string{"a", "b", "c"} {
			do("pin", strconv.Itoa(shard), to)
			cluster.Await(t, fmt.Sprintf("shard %d is at %s", shard, to), func() error {
				shardMap, err := c.Node("a").Map(t.Context())
				if err == nil && shardMap.Owner(shard) != to {
					err = fmt.Errorf("it is at %s", shardMap.Owner(shard))
				}
				return err
			})
		}
		do("unpin", strconv.Itoa(shard))
	}
	drained := c.Follower(t)
	returned := drained.RecordDrain()
	do("drain", drained.ID, "--wait")
	do("uncordon", drained.ID)
	c.AwaitServing(t)
	returned()
	do("step-down")
	c.AwaitServing(t)
}

// restartAll makes a node join and leave, and restarts the others one after the other.
func restartAll(t *testing.T, c *cluster.Cluster, traffic *cluster.Load) {
	t.Helper()
	if len(c.Nodes()) == 3 {
		c.Add(t)
	} else {
		c.Node("d").Start(t)
	}
	c.AwaitServing(t)
	traffic.AwaitStarted(t, 100)
	c.Node("d").Stop(t)
	for _, node := range c.Running() {
		traffic.AwaitStarted(t, 40)
		node.Stop(t)
		c.AwaitServing(t)
		traffic.AwaitStarted(t, 40)
		node.Start(t)
		c.AwaitServing(t)
	}
}
