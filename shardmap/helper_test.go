package shardmap_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"shardway/shardmap"
)

// equalMembers returns members of weight 1.
func equalMembers(ids ...shardmap.NodeID) []shardmap.Member {
	var members []shardmap.Member
	for _, id := range ids {
		members = append(members, shardmap.Member{ID: id, Weight: 1})
	}
	return members
}

// nodes returns n members of weight 1 with the ids n000, n001 and so on.
func nodes(n int) []shardmap.Member {
	var members []shardmap.Member
	for i := range n {
		members = append(members, shardmap.Member{ID: shardmap.NodeID(fmt.Sprintf("n%03d", i)), Weight: 1})
	}
	return members
}

// assignNext calls Assign without a policy, and WithEpoch with the next epoch.
func assignNext(base *shardmap.Map, members []shardmap.Member) *shardmap.Map {
	return shardmap.Assign(base, members, shardmap.Policy{}).WithEpoch(base, base.Epoch()+1)
}

// randomMembers returns up to n random members from a pool of n ids, so that successive results
// overlap. In half of the results all weights are equal.
func randomMembers(r *rand.Rand, n int) []shardmap.Member {
	pool := nodes(n)
	r.Shuffle(n, func(i, j int) { pool[i], pool[j] = pool[j], pool[i] })
	pool = pool[:r.IntN(n+1)]
	if r.IntN(2) == 0 {
		for i := range pool {
			pool[i].Weight = 1 + r.Uint32N(shardmap.MaxWeight)
		}
	}
	return pool
}

// quotaFloor returns the weighted quota of a member, rounded down, and whether it was rounded.
func quotaFloor(shards int, mb shardmap.Member, members []shardmap.Member) (floor int, fraction bool) {
	total := 0
	for _, o := range members {
		total += int(o.Weight)
	}
	return shards * int(mb.Weight) / total, shards*int(mb.Weight)%total != 0
}

// leastMoves returns the theoretical minimum of moves: the shards that no member owns, plus Σ
// max(0, owned − target) for the best way to round the quotas. It uses dynamic programming: best[k]
// is the minimum of that sum if the quotas of k members are rounded up.
func leastMoves(prev *shardmap.Map, members []shardmap.Member) int {
	unowned := prev.Len()
	for _, mb := range members {
		unowned -= prev.ShardCount(mb.ID)
	}
	const impossible = 1 << 30
	best := []int{0}
	left := prev.Len()
	for _, mb := range members {
		floor, fraction := quotaFloor(prev.Len(), mb, members)
		left -= floor
		owned := prev.ShardCount(mb.ID)
		next := make([]int, len(best)+1)
		for k := range next {
			next[k] = impossible
			if k < len(best) {
				next[k] = best[k] + max(0, owned-floor)
			}
			if k > 0 && fraction {
				next[k] = min(next[k], best[k-1]+max(0, owned-floor-1))
			}
		}
		best = next
	}
	return unowned + best[left]
}

// checkAssign fails the test if got, which Assign returned for prev and members, violates a
// guarantee of Assign. The members must be distinct and valid.
func checkAssign(t *testing.T, prev *shardmap.Map, members []shardmap.Member, got *shardmap.Map) {
	t.Helper()
	if got.Len() != prev.Len() || got.Epoch() != prev.Epoch() {
		t.Fatalf("Assign gave %d shards at epoch %d, want %d at %d", got.Len(), got.Epoch(), prev.Len(), prev.Epoch())
	}
	checkConsistent(t, got)
	moves := shardmap.Diff(prev, got)
	if len(members) == 0 {
		if got.OrphanCount() != got.Len() {
			t.Fatalf("%d orphans without members, want all %d", got.OrphanCount(), got.Len())
		}
		return
	}
	if got.OrphanCount() != 0 {
		t.Fatalf("%d orphans with %d members, want 0", got.OrphanCount(), len(members))
	}
	for _, mb := range members {
		floor, fraction := quotaFloor(got.Len(), mb, members)
		n := got.ShardCount(mb.ID)
		if n != floor && (n != floor+1 || !fraction) {
			t.Fatalf("%q (weight %d) owns %d of %d shards, want %d (or one more: %v)", mb.ID, mb.Weight, n, got.Len(), floor, fraction)
		}
	}
	if want := leastMoves(prev, members); len(moves) != want {
		t.Fatalf("%d moves, want %d", len(moves), want)
	}
	moved := make(map[shardmap.Shard]bool)
	for _, mv := range moves {
		moved[mv.Shard] = true
	}
	for s := range shardmap.Shard(got.Len()) {
		want := prev.OwnedSince(s)
		if moved[s] {
			want = 0
		}
		if e := got.OwnedSince(s); e != want {
			t.Fatalf("OwnedSince(%d) = %d, want %d (moved: %v)", s, e, want, moved[s])
		}
	}
}

// checkConsistent checks that the methods of m return consistent results.
func checkConsistent(t *testing.T, m *shardmap.Map) {
	t.Helper()
	if !slices.IsSortedFunc(m.Members(), func(a, b shardmap.Member) int {
		if a.ID < b.ID {
			return -1
		}
		return 1
	}) {
		t.Fatalf("members not sorted: %v", m.Members())
	}
	owned := 0
	for i, mb := range m.Members() {
		n := 0
		for s := range m.Shards(mb.ID) {
			if m.Owner(s) != mb.ID || m.OwnerIndex(s) != i {
				t.Fatalf("Owner(%d) = %q, index %d, want %q, %d", s, m.Owner(s), m.OwnerIndex(s), mb.ID, i)
			}
			n++
		}
		if n != m.ShardCount(mb.ID) || !m.IsMember(mb.ID) {
			t.Fatalf("Shards(%q) has %d, Count says %d", mb.ID, n, m.ShardCount(mb.ID))
		}
		owned += n
	}
	if owned+m.OrphanCount() != m.Len() {
		t.Fatalf("%d owned and %d orphans of %d shards", owned, m.OrphanCount(), m.Len())
	}
}
