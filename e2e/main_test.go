//go:build linux

package e2e_test

import (
	"encoding/json"
	"hash/crc32"
	"slices"
	"testing"
	"time"

	"shardway/e2e/kit/cluster"
	"shardway/e2e/kit/faultfs"
	"shardway/e2e/kit/wsresume"
)

// shards is the number of shards in these tests: uneven over three and four nodes, and
// few enough that load covers each of them every second.
const shards = 128

// build belongs to the whole test run, so the binaries are built once.
var build = cluster.NewSharedBuild()

func TestMain(m *testing.M) {
	if faultfs.Serve() || wsresume.Serve() || serveKeyRequests() || serveKeyProcess() {
		return
	}
	m.Run()
	build.Remove()
}

func binaries(tb testing.TB) cluster.Binaries {
	tb.Helper()
	return build.Binaries(tb)
}

// start starts n nodes with these flags, which serve when it returns.
func start(tb testing.TB, n int, flags ...string) *cluster.Cluster {
	tb.Helper()
	return cluster.Start(tb, cluster.Options{Binaries: binaries(tb), Nodes: n, Shards: shards, Flags: flags, Secret: hasSecret(tb)})
}

// hasSecret selects a third of the tests by their names. Their nodes have a secret, since the
// tests must also pass with TLS. make e2e-secret uses a secret in all tests.
func hasSecret(tb testing.TB) bool {
	tb.Helper()
	_, test := tb.(*testing.T)
	return test && crc32.ChecksumIEEE([]byte(tb.Name()))%3 == 0
}

// fewestMoves returns the minimum number of moves from a map to an even map over the
// owners of to. These are the shards of nodes that own none in to, and the shards above
// the quotas. The larger quotas go to the nodes with the most shards.
func fewestMoves(from, to cluster.Map) int {
	var nodes []string
	for id := range to.Counts() {
		nodes = append(nodes, id)
	}
	owned := from.Counts()
	moves := from.Shards
	var have []int
	for _, id := range nodes {
		have = append(have, owned[id])
		moves -= owned[id]
	}
	slices.Sort(have)
	slices.Reverse(have)
	for i, n := range have {
		quota := from.Shards / len(nodes)
		if i < from.Shards%len(nodes) {
			quota++
		}
		moves += max(0, n-quota)
	}
	return moves
}

// wantMoves checks that the maps between two maps moved the fewest possible shards. There
// may be one change, in one map or in stages, since busy shards move later than idle
// ones. There may also be several changes, if a node was excluded because the machine had
// no CPU time. Then each change must move the fewest shards.
func wantMoves(tb testing.TB, c *cluster.Cluster, from, to cluster.Map) {
	tb.Helper()
	chain, complete := mapsBetween(tb, c, from, to)
	for end := time.Now().Add(lastStage); complete && !inFewestMoves(chain) && time.Now().Before(end); {
		time.Sleep(50 * time.Millisecond) // busy shards follow in a later stage
		to = c.AwaitServing(tb)
		chain, complete = mapsBetween(tb, c, from, to)
	}
	switch {
	case !complete && !inFewestMoves([]cluster.Map{from, to}):
		tb.Logf("epoch %d → %d: a map between them was too short-lived to be seen, the moves are not judged", from.Epoch, to.Epoch)
	case complete && !inFewestMoves(chain):
		for i, shardMap := range chain[1:] {
			tb.Errorf("epoch %d → %d moved %d shards, want %d or stages of one change (%v → %v)",
				chain[i].Epoch, shardMap.Epoch, len(chain[i].Moves(shardMap)), fewestMoves(chain[i], shardMap), chain[i].Counts(), shardMap.Counts())
		}
	}
}

// lastStage is the maximum duration of the last stage of a change: drain-timeout and the
// rounds.
const lastStage = 10 * time.Second

// mapsBetween returns the maps that were committed from one to another, including both.
// complete reports whether all of them were observed.
func mapsBetween(tb testing.TB, c *cluster.Cluster, from, to cluster.Map) (chain []cluster.Map, complete bool) {
	tb.Helper()
	seen := make(map[uint64]cluster.Map)
	for _, shardMap := range c.Maps() {
		seen[shardMap.Epoch] = shardMap
	}
	chain, complete = []cluster.Map{from}, true
	for _, epoch := range c.Committed(tb) {
		if epoch <= from.Epoch || epoch >= to.Epoch {
			continue
		}
		shardMap, ok := seen[epoch]
		if complete = complete && ok; ok {
			chain = append(chain, shardMap)
		}
	}
	return append(chain, to), complete
}

// inFewestMoves reports whether the chain consists of changes, each in one or several
// maps, that move the fewest shards, and no shard twice.
func inFewestMoves(chain []cluster.Map) bool {
	reached := make([]bool, len(chain)) // by complete changes
	reached[0] = true
	for end := 1; end < len(chain); end++ {
		moves := 0
		for begin := end - 1; begin >= 0; begin-- {
			moves += len(chain[begin].Moves(chain[begin+1]))
			if reached[begin] && moves == fewestMoves(chain[begin], chain[end]) {
				reached[end] = true
				break
			}
		}
	}
	return reached[len(chain)-1]
}

// The test plants chains of maps.
func TestMovesOfStagedChangeAreCountedTogether(t *testing.T) {
	of := func(owners string) (shardMap cluster.Map) {
		must(t, json.Unmarshal([]byte(`{"nodes":[{"id":"a"},{"id":"b"},{"id":"c"}]}`), &shardMap))
		shardMap.Shards = len(owners)
		for _, id := range owners {
			shardMap.Owners = append(shardMap.Owners, int(id-'a'))
		}
		return shardMap
	}
	for name, c := range map[string]struct {
		want  bool
		chain []string
	}{
		"one change":               {true, []string{"aabb", "bbbb"}},
		"a change in stages":       {true, []string{"aaaabbbb", "baaabbbb", "bbbbbbbb"}},
		"a stage that is missing":  {false, []string{"aaabbb", "bbabbb"}},
		"a change and its return":  {true, []string{"aabb", "bbbb", "aabb"}},
		"a return in stages":       {true, []string{"aabb", "bbbb", "abbb", "aabb"}},
		"a return that is missing": {false, []string{"aabb", "bbbb", "abbb"}},
		"a shard moves twice":      {false, []string{"aabbcc", "bcbbcc", "ccbbcc"}},
		"one shard too many":       {false, []string{"aabbcc", "bccbcb"}},
	} {
		var chain []cluster.Map
		for _, owners := range c.chain {
			chain = append(chain, of(owners))
		}
		if got := inFewestMoves(chain); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// wantSame checks that no shard moved since then. If the machine had no CPU time for the
// nodes for a second in total, it checks only for the fewest moves.
func wantSame(tb testing.TB, c *cluster.Cluster, since int64, from, to cluster.Map) {
	tb.Helper()
	if starved := c.StarvedTime(since); starved > time.Second {
		tb.Logf("the nodes waited for a processor for %v", starved)
		wantMoves(tb, c, from, to)
		return
	}
	if moves := from.Moves(to); len(moves) != 0 {
		tb.Errorf("epoch %d → %d moved %d shards, want none (%v → %v)", from.Epoch, to.Epoch, len(moves), from.Counts(), to.Counts())
	}
}
