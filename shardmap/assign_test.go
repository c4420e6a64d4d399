package shardmap_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"shardway/shardmap"
)

// Each chain is a sequence of membership changes: every map is derived from the previous one.
func TestAssignGuaranteesHoldOverManyMembershipChanges(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for i := range 300 {
		m := shardmap.New(1 + r.IntN(1<<r.IntN(12)))
		pool := 1 + r.IntN(20)
		for range 12 {
			members := randomMembers(r, pool)
			got := shardmap.Assign(m, members, shardmap.Policy{})
			checkAssign(t, m, members, got)
			if t.Failed() {
				t.Fatalf("chain %d: %d shards, members %v", i, m.Len(), members)
			}
			m = got.WithEpoch(m, m.Epoch()+1)
		}
	}
}

func TestAssignIsIndependentOfOrder(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	for range 200 {
		base := assignNext(shardmap.New(1+r.IntN(300)), randomMembers(r, 12))
		members := randomMembers(r, 12)
		// Duplicates with different weights must not make the order matter.
		for range r.IntN(3) {
			if len(members) > 0 {
				members = append(members, shardmap.Member{ID: members[0].ID, Weight: 1 + r.Uint32N(9)})
			}
		}
		want := shardmap.Assign(base, members, shardmap.Policy{}).Digest()
		for range 5 {
			input := slices.Clone(members)
			r.Shuffle(len(input), func(i, j int) { input[i], input[j] = input[j], input[i] })
			before := slices.Clone(input)
			if shardmap.Assign(base, input, shardmap.Policy{}).Digest() != want {
				t.Fatalf("the order of members changes the map: %v and %v", members, input)
			}
			if !slices.Equal(input, before) {
				t.Fatal("Assign reordered its input")
			}
		}
	}
}

// Successive leaders of different versions must not move shards back and forth without reason. A
// change of this digest is a change of the protocol.
func TestAssignResultIsStableAcrossVersions(t *testing.T) {
	m := assignNext(assignNext(assignNext(shardmap.New(1024), nodes(3)), nodes(7)), nodes(5))
	const want = "41c4112d176497510d8a79e19babc415bf018073fcf9dd66f40be1a8d8a87c1f"
	if got := fmt.Sprintf("%x", m.Digest()); got != want {
		t.Errorf("digest %s, want %s", got, want)
	}
}

func TestRepeatedAssignMovesNothing(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	for range 300 {
		m := assignNext(assignNext(shardmap.New(1+r.IntN(500)), randomMembers(r, 9)), randomMembers(r, 9))
		if again := shardmap.Assign(m, m.Members(), shardmap.Policy{}); again.Digest() != m.Digest() {
			t.Fatalf("%d moves for the same members", len(shardmap.Diff(m, again)))
		}
	}
}

// The test tries all assignments of the shards to the members. Assign must move as few shards as
// the best assignment that is even.
func TestAssignMovesMatchExhaustiveSearch(t *testing.T) {
	weights := []uint32{1, 1, 1, 2, 3, 7, 1000}
	r := rand.New(rand.NewPCG(11, 12))
	for range 400 {
		pool := nodes(4)
		for i := range pool {
			pool[i].Weight = weights[r.IntN(len(weights))]
		}
		base := shardmap.Assign(shardmap.New(1+r.IntN(6)), pool[:r.IntN(5)], shardmap.Policy{})
		r.Shuffle(4, func(i, j int) { pool[i], pool[j] = pool[j], pool[i] })
		members := pool[:1+r.IntN(4)]
		for i := range members {
			members[i].Weight = weights[r.IntN(len(weights))]
		}
		got := shardmap.Assign(base, members, shardmap.Policy{})
		if n, want := len(shardmap.Diff(base, got)), minEvenDistance(base, members); n != want {
			t.Fatalf("%d shards among %v: %d moves, exhaustive search finds %d", base.Len(), members, n, want)
		}
		if distance(base, owners(got)) != len(shardmap.Diff(base, got)) || !isEven(owners(got), members) {
			t.Fatalf("the reference does not consider %v even", owners(got))
		}
	}
}

// minEvenDistance tries all assignments and returns the minimum distance of an even one to base.
func minEvenDistance(base *shardmap.Map, members []shardmap.Member) int {
	best := base.Len() + 1
	pick := make([]int, base.Len())
	as := make([]shardmap.NodeID, base.Len())
	for {
		for s, i := range pick {
			as[s] = members[i].ID
		}
		if isEven(as, members) {
			best = min(best, distance(base, as))
		}
		s := 0
		for ; s < len(pick); s++ {
			if pick[s]++; pick[s] < len(members) {
				break
			}
			pick[s] = 0
		}
		if s == len(pick) {
			return best
		}
	}
}

// isEven reports whether the count of each member differs from its quota by less than one shard.
func isEven(as []shardmap.NodeID, members []shardmap.Member) bool {
	total := 0
	for _, mb := range members {
		total += int(mb.Weight)
	}
	for _, mb := range members {
		n := 0
		for _, id := range as {
			if id == mb.ID {
				n++
			}
		}
		if off := n*total - len(as)*int(mb.Weight); off <= -total || off >= total {
			return false
		}
	}
	return true
}

func distance(base *shardmap.Map, as []shardmap.NodeID) int {
	n := 0
	for s, id := range as {
		if base.Owner(shardmap.Shard(s)) != id {
			n++
		}
	}
	return n
}

func owners(m *shardmap.Map) []shardmap.NodeID {
	var as []shardmap.NodeID
	for s := range shardmap.Shard(m.Len()) {
		as = append(as, m.Owner(s))
	}
	return as
}

func TestJoinMovesOneShareAndLeaveMovesOnlyShardsOfTheLeaver(t *testing.T) {
	for _, shards := range []int{16, 1000, 1024, 4096} {
		m := assignNext(shardmap.New(shards), equalMembers("n000"))
		for n := 1; n < 20; n++ {
			next := assignNext(m, nodes(n+1))
			moves := shardmap.Diff(m, next)
			if len(moves) != shards/(n+1) {
				t.Errorf("%d shards, join of node %d: %d moves, want %d", shards, n+1, len(moves), shards/(n+1))
			}
			for _, mv := range moves {
				if mv.To != nodes(n + 1)[n].ID {
					t.Errorf("a join moved shard %d from %q to %q", mv.Shard, mv.From, mv.To)
				}
			}
			m = next
		}
		for n := 19; n > 0; n-- {
			next := assignNext(m, nodes(n))
			if got, want := len(shardmap.Diff(m, next)), m.ShardCount(nodes(n + 1)[n].ID); got != want {
				t.Errorf("%d shards, leave of node %d: %d moves, want %d", shards, n+1, got, want)
			}
			m = next
		}
	}
}

func TestAssignCases(t *testing.T) {
	ab := assignNext(shardmap.New(10), equalMembers("a", "b"))
	tests := []struct {
		name    string
		prev    *shardmap.Map
		members []shardmap.Member
		counts  map[shardmap.NodeID]int
		moves   int
	}{
		{"first member takes all", shardmap.New(10), equalMembers("a"), map[shardmap.NodeID]int{"a": 10}, 10},
		{"no members left", ab, nil, nil, 10},
		{"no members before and after", shardmap.New(10), nil, nil, 0},
		{"all replaced", ab, equalMembers("c", "d"), map[shardmap.NodeID]int{"c": 5, "d": 5}, 10},
		{"one replaced", ab, equalMembers("a", "c"), map[shardmap.NodeID]int{"a": 5, "c": 5}, 5},
		{"weights", shardmap.New(10), []shardmap.Member{{ID: "a", Weight: 1}, {ID: "b", Weight: 4}}, map[shardmap.NodeID]int{"a": 2, "b": 8}, 10},
		{"a weight grows", ab, []shardmap.Member{{ID: "a", Weight: 4}, {ID: "b", Weight: 1}}, map[shardmap.NodeID]int{"a": 8, "b": 2}, 3},
		{"more members than shards: each owner keeps its shard", assignNext(shardmap.New(2), equalMembers("a", "b")), nodes(5), nil, 2},
		{"many new members: the owners keep their shards", assignNext(shardmap.New(2), equalMembers("a", "b")), append(nodes(5), equalMembers("a", "b")...), map[shardmap.NodeID]int{"a": 1, "b": 1}, 0},
		{"a member with a low weight may own no shards", shardmap.New(3), []shardmap.Member{{ID: "a", Weight: 1000}, {ID: "b", Weight: 1}}, map[shardmap.NodeID]int{"a": 3, "b": 0}, 3},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := shardmap.Assign(tt.prev, tt.members, shardmap.Policy{})
			checkAssign(t, tt.prev, tt.members, got)
			for id, want := range tt.counts {
				if n := got.ShardCount(id); n != want {
					t.Errorf("Count(%q) = %d, want %d", id, n, want)
				}
			}
			if n := len(shardmap.Diff(tt.prev, got)); n != tt.moves {
				t.Errorf("%d moves, want %d", n, tt.moves)
			}
		})
	}
}

// With 10 shards and three members, one member owns four. It must be the one that owns four
// already, independent of the hash and of the alphabetical order.
func TestExtraShardStaysWithItsOwner(t *testing.T) {
	for _, id := range []shardmap.NodeID{"a", "b", "c"} {
		heavy := equalMembers("a", "b", "c")
		for i := range heavy {
			heavy[i].Weight = 3
			if heavy[i].ID == id {
				heavy[i].Weight = 4
			}
		}
		base := assignNext(shardmap.New(10), heavy)
		got := shardmap.Assign(base, equalMembers("a", "b", "c"), shardmap.Policy{})
		if got.ShardCount(id) != 4 || len(shardmap.Diff(base, got)) != 0 {
			t.Errorf("%q owned 4, then %d; %d moves, want none", id, got.ShardCount(id), len(shardmap.Diff(base, got)))
		}
	}
}

// The quotas of 10 shards for the weights 6, 5 and 2 are 4.6, 3.8 and 1.5.
func TestLargestRemaindersAreRoundedUp(t *testing.T) {
	for i := range 20 { // with different hashes of the ids
		a, b, c := shardmap.NodeID(fmt.Sprint("a", i)), shardmap.NodeID(fmt.Sprint("b", i)), shardmap.NodeID(fmt.Sprint("c", i))
		m := shardmap.Assign(shardmap.New(10), []shardmap.Member{{ID: a, Weight: 6}, {ID: b, Weight: 5}, {ID: c, Weight: 2}}, shardmap.Policy{})
		if m.ShardCount(a) != 5 || m.ShardCount(b) != 4 || m.ShardCount(c) != 1 {
			t.Errorf("counts %d, %d, %d, want 5, 4, 1", m.ShardCount(a), m.ShardCount(b), m.ShardCount(c))
		}
	}
}

// In many small clusters, the additional shard must not always go to the alphabetically first
// member.
func TestTiesAreNotBrokenAlphabetically(t *testing.T) {
	first := 0
	for i := range 200 {
		a, b := shardmap.NodeID(fmt.Sprintf("a%d", i)), shardmap.NodeID(fmt.Sprintf("b%d", i))
		if m := shardmap.Assign(shardmap.New(3), equalMembers(a, b), shardmap.Policy{}); m.ShardCount(a) == 2 {
			first++
		}
	}
	if first < 60 || first > 140 {
		t.Errorf("the first of two ids got the extra shard %d times of 200", first)
	}
}

// A node that returns receives most of its former shards, because its files and caches may still
// exist. A random choice would return a fifth.
func TestReturningNodeGetsMostOfItsShardsBack(t *testing.T) {
	m := assignNext(shardmap.New(1024), nodes(5))
	had := slices.Collect(m.Shards("n002"))
	gone := assignNext(m, slices.Delete(nodes(5), 2, 3))
	back := assignNext(gone, nodes(5))
	n := 0
	for _, s := range had {
		if back.Owner(s) == "n002" {
			n++
		}
	}
	if n*2 < len(had) {
		t.Errorf("%d of %d shards returned, want at least half", n, len(had))
	}
}

func TestAssignCorrectsInvalidMembers(t *testing.T) {
	long := shardmap.NodeID(strings.Repeat("x", shardmap.MaxID+1))
	tests := []struct {
		name  string
		input []shardmap.Member
		want  []shardmap.Member
	}{
		{"weight 0", []shardmap.Member{{ID: "a"}}, equalMembers("a")},
		{"weight too large", []shardmap.Member{{ID: "a", Weight: 5000}}, []shardmap.Member{{ID: "a", Weight: shardmap.MaxWeight}}},
		{"no id", append(equalMembers("a"), shardmap.Member{Weight: 1}), equalMembers("a")},
		{"long id", append(equalMembers("a"), equalMembers(long)...), equalMembers("a")},
		{"duplicate id", []shardmap.Member{{ID: "a", Weight: 2}, {ID: "a", Weight: 7}, {ID: "a", Weight: 3}}, []shardmap.Member{{ID: "a", Weight: 7}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := shardmap.Assign(shardmap.New(8), tt.input, shardmap.Policy{}).Members(); !slices.Equal(got, tt.want) {
				t.Errorf("members %v, want %v", got, tt.want)
			}
		})
	}
	many := manyNodes(shardmap.MaxMembers + 1)
	if got := len(shardmap.Assign(shardmap.New(8), many, shardmap.Policy{}).Members()); got != shardmap.MaxMembers {
		t.Errorf("%d members, want %d", got, shardmap.MaxMembers)
	}
}

func manyNodes(n int) []shardmap.Member {
	var members []shardmap.Member
	for i := range n {
		members = append(members, shardmap.Member{ID: shardmap.NodeID(fmt.Sprintf("node-%05d", i)), Weight: 1})
	}
	return members
}

// Quotas, sums and index types must not overflow for the largest possible map.
func TestAssignAtTheLimits(t *testing.T) {
	members := manyNodes(shardmap.MaxMembers)
	for i := range members {
		members[i].Weight = uint32(1 + i%shardmap.MaxWeight)
	}
	base := assignNext(shardmap.New(shardmap.MaxShards), members)
	checkAssign(t, shardmap.New(shardmap.MaxShards), members, shardmap.Assign(shardmap.New(shardmap.MaxShards), members, shardmap.Policy{}))
	checkAssign(t, base, members[100:900], shardmap.Assign(base, members[100:900], shardmap.Policy{}))
}

// FuzzAssign interprets the input as membership changes: each pair of bytes is a member that joins,
// leaves or changes its weight.
func FuzzAssign(f *testing.F) {
	f.Add(uint16(10), []byte{0, 1, 1, 1, 2, 9, 0, 0, 3, 255})
	f.Add(uint16(1), []byte{5, 1, 4, 1, 3, 1, 5, 0})
	f.Fuzz(func(t *testing.T, shards uint16, steps []byte) {
		m := shardmap.New(1 + int(shards)%600)
		weight := make(map[shardmap.NodeID]uint32)
		for i := 0; i+1 < min(len(steps), 64); i += 2 {
			id := shardmap.NodeID(fmt.Sprint("n", steps[i]%12))
			if weight[id] = uint32(steps[i+1]) * 4 % (shardmap.MaxWeight + 1); steps[i+1] == 0 {
				delete(weight, id)
			}
			var members []shardmap.Member
			for id, w := range weight {
				members = append(members, shardmap.Member{ID: id, Weight: max(w, 1)})
			}
			got := shardmap.Assign(m, members, shardmap.Policy{})
			checkAssign(t, m, members, got)
			m = got.WithEpoch(m, m.Epoch()+1)
			roundTrip(t, m)
		}
	})
}
