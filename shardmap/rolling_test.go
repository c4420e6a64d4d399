package shardmap_test

import (
	"slices"
	"testing"

	"shardway/shardmap"
)

// In a rolling restart some shards used to move six times: a returning node received as many shards
// as before, but different ones, and its former shards moved again when their new owner restarted.
// Now each shard moves away and back. Only the remainder of shards divided by nodes, less than one
// shard per node, may move once more: to minimize moves, a returning node receives one shard less
// than it had, and later maps do not depend on which one.
func TestRollingRestartMovesEachShardTwice(t *testing.T) {
	for n := 2; n <= 8; n++ {
		for _, shards := range []int{12, 128, 1000} {
			all := nodes(n)
			m := assignNext(shardmap.New(shards), all)
			before := make([]shardmap.NodeID, shards)
			moves := make([]int, shards)
			next := func(members []shardmap.Member) {
				to := assignWithEpoch(m, members, shardmap.Policy{PreviousOwners: before})
				for _, mv := range shardmap.Diff(m, to) {
					before[mv.Shard] = mv.From
					moves[mv.Shard]++
				}
				m = to
			}
			for range 2 {
				clear(moves)
				for i := range all {
					next(slices.Delete(slices.Clone(all), i, i+1))
					next(all)
				}
				often := 0
				for _, times := range moves {
					if times > 2 {
						often++
					}
				}
				if most := slices.Max(moves); most > 3 || often > shards%n {
					t.Errorf("%d nodes, %d shards: a shard moved %d times, and %d shards more than twice", n, shards, most, often)
				}
			}
		}
	}
}
