//go:build linux

package e2e_test

import (
	"context"
	"hash/crc32"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"shardway/e2e/badisk"
	"shardway/e2e/cluster"
	"shardway/e2e/kept"
)

// shards is the number of shards in these tests: uneven over three and four
// nodes, and few enough that load covers each of them every second.
const shards = 128

// scratch and built belong to the whole test run: the binaries are built once.
var (
	scratch = sync.OnceValues(cluster.Scratch)
	built   = sync.OnceValues(func() (cluster.Binaries, error) {
		dir, err := scratch()
		if err != nil {
			return cluster.Binaries{}, err
		}
		// Some tests run the binary as another user.
		if err := os.Chmod(dir, 0o755); err != nil {
			return cluster.Binaries{}, err
		}
		return cluster.Build(context.Background(), dir)
	})
)

func TestMain(m *testing.M) {
	if badisk.Serve() || kept.Serve() || serveAsker() {
		return
	}
	m.Run()
	if dir, err := scratch(); err == nil {
		_ = os.RemoveAll(dir)
	}
}

func binaries(tb testing.TB) cluster.Binaries {
	tb.Helper()
	b, err := built()
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

// start starts n nodes with these flags, which serve when it returns.
func start(tb testing.TB, n int, flags ...string) *cluster.Cluster {
	tb.Helper()
	return cluster.Start(tb, cluster.Options{Binaries: binaries(tb), Nodes: n, Shards: shards, Flags: flags, Secret: third(tb)})
}

// third chooses tests, always the same by their names, whose nodes have a secret in
// the usual run: what is shown must hold over TLS too. make e2e-secret gives all one.
func third(tb testing.TB) bool {
	tb.Helper()
	_, test := tb.(*testing.T)
	return test && crc32.ChecksumIEEE([]byte(tb.Name()))%3 == 0
}

// fewestMoves is the number of moves that no even map over the owners of to can
// do without: what has no owner there, and what is above the quotas, whose
// remainders go to those who have most.
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

// wantMoves checks that what led from one map to another moved as few shards as
// there must be. It is one change, in one map or in stages, unless the machine stood still
// for so long that a node was taken for dead; then every change by itself must be as small.
func wantMoves(tb testing.TB, c *cluster.Cluster, from, to cluster.Map) {
	tb.Helper()
	between, seen := mapsBetween(tb, c, from, to)
	for end := time.Now().Add(lastStage); !staged(from, to, between, seen); {
		if len(from.Moves(to)) >= fewestMoves(from, to) || time.Now().After(end) {
			break
		}
		time.Sleep(50 * time.Millisecond) // busy shards follow
		to = c.AwaitServing(tb)
		between, seen = mapsBetween(tb, c, from, to)
	}
	if staged(from, to, between, seen) {
		return
	}
	last := from
	for _, epoch := range append(between, to.Epoch) {
		next, ok := seen[epoch]
		if epoch == to.Epoch {
			next = to
		} else if !ok {
			tb.Logf("epoch %d → %d: the map of epoch %d was too short-lived to be seen, the moves are not judged", from.Epoch, to.Epoch, epoch)
			return
		}
		if got, want := len(last.Moves(next)), fewestMoves(last, next); got != want {
			tb.Errorf("epoch %d → %d moved %d shards, want %d (%v → %v)", last.Epoch, next.Epoch, got, want, last.Counts(), next.Counts())
		}
		last = next
	}
}

// lastStage is how long the last stage of a change may take: drain-timeout, and the rounds.
const lastStage = 10 * time.Second

// mapsBetween returns the epochs that were committed between two maps, and the maps that were
// seen, by epoch.
func mapsBetween(tb testing.TB, c *cluster.Cluster, from, to cluster.Map) (between []uint64, seen map[uint64]cluster.Map) {
	tb.Helper()
	for _, epoch := range c.Committed(tb) {
		if epoch > from.Epoch && epoch < to.Epoch {
			between = append(between, epoch)
		}
	}
	seen = make(map[uint64]cluster.Map)
	for _, m := range c.Maps() {
		seen[m.Epoch] = m
	}
	return between, seen
}

// staged reports that the maps between two are stages of one change: all of them together move
// the fewest shards, and no shard twice. Busy shards move in later maps than idle ones.
func staged(from, to cluster.Map, between []uint64, seen map[uint64]cluster.Map) bool {
	moves, last := 0, from
	for _, epoch := range append(between, to.Epoch) {
		next, ok := seen[epoch]
		if epoch == to.Epoch {
			next, ok = to, true
		}
		if !ok {
			continue // its moves are counted with those of the next map
		}
		moves += len(last.Moves(next))
		last = next
	}
	return moves == fewestMoves(from, to)
}

// wantSame checks that nothing moved at all since then; on a machine that had no
// processor for the nodes for a second in all, that nothing moved without need.
func wantSame(tb testing.TB, c *cluster.Cluster, since int64, from, to cluster.Map) {
	tb.Helper()
	if starved := c.Starved(since); starved > time.Second {
		tb.Logf("the nodes waited for a processor for %v", starved)
		wantMoves(tb, c, from, to)
		return
	}
	if moves := from.Moves(to); len(moves) != 0 {
		tb.Errorf("epoch %d → %d moved %d shards, want none (%v → %v)", from.Epoch, to.Epoch, len(moves), from.Counts(), to.Counts())
	}
}
