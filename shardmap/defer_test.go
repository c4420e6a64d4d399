package shardmap_test

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"shardway/shardmap"
)

// A staged owner keeps its busy shards, even if it is no longer a member. All other shards are
// placed as if nothing were staged. Once all shards are idle, the result is the final map.
func TestAssignDefersBusyShardsOfStagedOwners(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		names := []shardmap.NodeID{"a", "b", "c", "d", "e"}
		prev := shardmap.Assign(shardmap.New(1+r.IntN(40)), members(r, names[:1+r.IntN(5)]), shardmap.Policy{})
		next := members(r, names[r.IntN(4):])
		final := shardmap.Assign(prev, next, shardmap.Policy{})
		p := shardmap.Policy{DefersMoves: map[shardmap.NodeID]bool{}, IdleShards: map[shardmap.Shard]bool{}}
		for _, id := range names {
			p.DefersMoves[id] = r.IntN(3) > 0
		}
		for s := range shardmap.Shard(prev.Len()) {
			p.IdleShards[s] = r.IntN(2) == 0
		}
		got := shardmap.Assign(prev, next, p)
		want := map[shardmap.NodeID]bool{}
		for _, m := range final.Members() {
			want[m.ID] = true
		}
		for s := range shardmap.Shard(prev.Len()) {
			owner := final.Owner(s)
			if from := prev.Owner(s); p.DefersMoves[from] && !p.IdleShards[s] {
				owner, want[from] = from, true
			}
			if got.Owner(s) != owner {
				t.Fatalf("shard %d went from %q to %q, want %q (staged %v, idle %v)", s, prev.Owner(s), got.Owner(s), owner, p.DefersMoves[prev.Owner(s)], p.IdleShards[s])
			}
			if since := got.OwnedSince(s); owner == prev.Owner(s) && since != prev.OwnedSince(s) {
				t.Fatalf("shard %d has ownership epoch %d, want %d", s, since, prev.OwnedSince(s))
			}
		}
		var has []shardmap.NodeID
		for _, m := range got.Members() {
			has = append(has, m.ID)
		}
		if !slices.Equal(has, slices.Sorted(maps.Keys(want))) {
			t.Fatalf("members %v, want %v", has, slices.Sorted(maps.Keys(want)))
		}
		checkConsistent(t, got)
		for s := range shardmap.Shard(prev.Len()) {
			p.IdleShards[s] = true
		}
		if got := shardmap.Assign(prev, next, p); !got.HasSameOwners(final) {
			t.Fatal("all shards are idle, but the map is not the final one")
		}
	}
}

func members(r *rand.Rand, names []shardmap.NodeID) []shardmap.Member {
	var out []shardmap.Member
	for _, id := range names {
		out = append(out, shardmap.Member{ID: id, Weight: uint32(1 + r.IntN(3))})
	}
	return out
}
