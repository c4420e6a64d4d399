package shardmap_test

import (
	"slices"
	"testing"

	"shardway/shardmap"
)

// A rolling restart moved some shards six times: whoever came back got as many as it had
// had, but others, and those it had had moved on when their new owner was restarted. Now
// each moves away and back. Of what is left over when shards are divided by nodes, less
// than one for each node, some move once more: to move fewest, who comes back gets one
// less than it had, and which one that is makes no difference to a later map.
func TestRollingRestartMovesEachShardTwice(t *testing.T) {
	for n := 2; n <= 8; n++ {
		for _, shards := range []int{12, 128, 1000} {
			all := nodes(n)
			m := step(shardmap.New(shards), all)
			before := make([]shardmap.NodeID, shards)
			moves := make([]int, shards)
			next := func(members []shardmap.Member) {
				to := settled(m, members, shardmap.Policy{Before: before})
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
					t.Errorf("%d nodes, %d shards: a shard moved %d times, %d did more than twice", n, shards, most, often)
				}
			}
		}
	}
}
