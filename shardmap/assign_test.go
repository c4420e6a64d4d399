package shardmap_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"shardway/shardmap"
)

// Each chain is a life of a cluster: every map is derived from the one before.
func TestAssignKeepsItsPromisesOverAClustersLife(t *testing.T) {
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
			m = got.Settle(m, m.Epoch()+1)
		}
	}
}

func TestAssignIsIndependentOfOrder(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	for range 200 {
		base := step(shardmap.New(1+r.IntN(300)), randomMembers(r, 12))
		members := randomMembers(r, 12)
		// Duplicates with other weights must not bring order in either.
		for range r.IntN(3) {
			if len(members) > 0 {
				members = append(members, shardmap.Member{ID: members[0].ID, Weight: 1 + r.Uint32N(9)})
			}
		}
		want := shardmap.Assign(base, members, shardmap.Policy{}).Digest()
		for range 5 {
			given := slices.Clone(members)
			r.Shuffle(len(given), func(i, j int) { given[i], given[j] = given[j], given[i] })
			before := slices.Clone(given)
			if shardmap.Assign(base, given, shardmap.Policy{}).Digest() != want {
				t.Fatalf("another order, another map: %v and %v", members, given)
			}
			if !slices.Equal(given, before) {
				t.Fatal("Assign reordered its input")
			}
		}
	}
}

// Two versions of the program that lead one after the other must not move shards
// to and fro for nothing: a change here is a change of the protocol.
func TestAssignGivesTheSameMapAsEver(t *testing.T) {
	m := step(step(step(shardmap.New(1024), nodes(3)), nodes(7)), nodes(5))
	const want = "41c4112d176497510d8a79e19babc415bf018073fcf9dd66f40be1a8d8a87c1f"
	if got := fmt.Sprintf("%x", m.Digest()); got != want {
		t.Errorf("digest %s, want %s", got, want)
	}
}

func TestAssignAgainMovesNothing(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	for range 300 {
		m := step(step(shardmap.New(1+r.IntN(500)), randomMembers(r, 9)), randomMembers(r, 9))
		if again := shardmap.Assign(m, m.Members(), shardmap.Policy{}); again.Digest() != m.Digest() {
			t.Fatalf("%d moves for the same members", len(shardmap.Diff(m, again)))
		}
	}
}

// Every way to give S shards to the members is tried. Those that are even are
// the allowed ones, and Assign must be as near to the last map as the nearest.
func TestAssignIsAsGoodAsTryingEverything(t *testing.T) {
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
		if n, want := len(shardmap.Diff(base, got)), nearestEven(base, members); n != want {
			t.Fatalf("%d shards among %v: %d moves, trying everything finds %d", base.Len(), members, n, want)
		}
		if distance(base, owners(got)) != len(shardmap.Diff(base, got)) || !even(owners(got), members) {
			t.Fatalf("the twin does not agree that %v is even", owners(got))
		}
	}
}

// nearestEven counts through all assignments and returns the least distance of
// an even one to base.
func nearestEven(base *shardmap.Map, members []shardmap.Member) int {
	best := base.Len() + 1
	pick := make([]int, base.Len())
	as := make([]shardmap.NodeID, base.Len())
	for {
		for s, i := range pick {
			as[s] = members[i].ID
		}
		if even(as, members) {
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

// even reports whether every count is less than one away from the quota.
func even(as []shardmap.NodeID, members []shardmap.Member) bool {
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

func TestJoinMovesOneShareAndLeaveExactlyTheLeavers(t *testing.T) {
	for _, shards := range []int{16, 1000, 1024, 4096} {
		m := step(shardmap.New(shards), same("n000"))
		for n := 1; n < 20; n++ {
			next := step(m, nodes(n+1))
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
			next := step(m, nodes(n))
			if got, want := len(shardmap.Diff(m, next)), m.Count(nodes(n + 1)[n].ID); got != want {
				t.Errorf("%d shards, leave of node %d: %d moves, want %d", shards, n+1, got, want)
			}
			m = next
		}
	}
}

func TestAssignCases(t *testing.T) {
	ab := step(shardmap.New(10), same("a", "b"))
	tests := []struct {
		name    string
		prev    *shardmap.Map
		members []shardmap.Member
		counts  map[shardmap.NodeID]int
		moves   int
	}{
		{"first member takes all", shardmap.New(10), same("a"), map[shardmap.NodeID]int{"a": 10}, 10},
		{"nobody left", ab, nil, nil, 10},
		{"from nobody to nobody", shardmap.New(10), nil, nil, 0},
		{"all replaced", ab, same("c", "d"), map[shardmap.NodeID]int{"c": 5, "d": 5}, 10},
		{"one replaced", ab, same("a", "c"), map[shardmap.NodeID]int{"a": 5, "c": 5}, 5},
		{"weights", shardmap.New(10), []shardmap.Member{{ID: "a", Weight: 1}, {ID: "b", Weight: 4}}, map[shardmap.NodeID]int{"a": 2, "b": 8}, 10},
		{"a weight grows", ab, []shardmap.Member{{ID: "a", Weight: 4}, {ID: "b", Weight: 1}}, map[shardmap.NodeID]int{"a": 8, "b": 2}, 3},
		{"more members than shards, each keeps one", step(shardmap.New(2), same("a", "b")), nodes(5), nil, 2},
		{"the owners keep theirs among many", step(shardmap.New(2), same("a", "b")), append(nodes(5), same("a", "b")...), map[shardmap.NodeID]int{"a": 1, "b": 1}, 0},
		{"a light member may get none", shardmap.New(3), []shardmap.Member{{ID: "a", Weight: 1000}, {ID: "b", Weight: 1}}, map[shardmap.NodeID]int{"a": 3, "b": 0}, 3},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := shardmap.Assign(tt.prev, tt.members, shardmap.Policy{})
			checkAssign(t, tt.prev, tt.members, got)
			for id, want := range tt.counts {
				if n := got.Count(id); n != want {
					t.Errorf("Count(%q) = %d, want %d", id, n, want)
				}
			}
			if n := len(shardmap.Diff(tt.prev, got)); n != tt.moves {
				t.Errorf("%d moves, want %d", n, tt.moves)
			}
		})
	}
}

// With 10 shards among three, one of them gets four. It must be the one that has
// four already, whoever the hash or the alphabet would prefer.
func TestTheExtraShardStaysWhereItIs(t *testing.T) {
	for _, id := range []shardmap.NodeID{"a", "b", "c"} {
		heavy := same("a", "b", "c")
		for i := range heavy {
			heavy[i].Weight = 3
			if heavy[i].ID == id {
				heavy[i].Weight = 4
			}
		}
		base := step(shardmap.New(10), heavy)
		got := shardmap.Assign(base, same("a", "b", "c"), shardmap.Policy{})
		if got.Count(id) != 4 || len(shardmap.Diff(base, got)) != 0 {
			t.Errorf("%q owned 4, then %d; %d moves, want none", id, got.Count(id), len(shardmap.Diff(base, got)))
		}
	}
}

// Quotas of 10 shards by weights 6, 5 and 2 are 4.6, 3.8 and 1.5.
func TestLargestRemaindersAreRoundedUp(t *testing.T) {
	for i := range 20 { // whatever the names hash to
		a, b, c := shardmap.NodeID(fmt.Sprint("a", i)), shardmap.NodeID(fmt.Sprint("b", i)), shardmap.NodeID(fmt.Sprint("c", i))
		m := shardmap.Assign(shardmap.New(10), []shardmap.Member{{ID: a, Weight: 6}, {ID: b, Weight: 5}, {ID: c, Weight: 2}}, shardmap.Policy{})
		if m.Count(a) != 5 || m.Count(b) != 4 || m.Count(c) != 1 {
			t.Errorf("counts %d, %d, %d, want 5, 4, 1", m.Count(a), m.Count(b), m.Count(c))
		}
	}
}

// The extra shards of many small clusters must not all go to the same name.
func TestTiesAreNotBrokenByTheAlphabet(t *testing.T) {
	first := 0
	for i := range 200 {
		a, b := shardmap.NodeID(fmt.Sprintf("a%d", i)), shardmap.NodeID(fmt.Sprintf("b%d", i))
		if m := shardmap.Assign(shardmap.New(3), same(a, b), shardmap.Policy{}); m.Count(a) == 2 {
			first++
		}
	}
	if first < 60 || first > 140 {
		t.Errorf("the first of two ids got the extra shard %d times of 200", first)
	}
}

// A node that comes back gets most of what it had (a fifth would be chance): its
// files and caches may still be there.
func TestReturningNodeGetsMostOfItsShardsBack(t *testing.T) {
	m := step(shardmap.New(1024), nodes(5))
	had := slices.Collect(m.Shards("n002"))
	gone := step(m, slices.Delete(nodes(5), 2, 3))
	back := step(gone, nodes(5))
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

func TestAssignBendsUnusableMembersIntoShape(t *testing.T) {
	long := shardmap.NodeID(strings.Repeat("x", shardmap.MaxID+1))
	tests := []struct {
		name  string
		given []shardmap.Member
		want  []shardmap.Member
	}{
		{"weight 0", []shardmap.Member{{ID: "a"}}, same("a")},
		{"weight too large", []shardmap.Member{{ID: "a", Weight: 5000}}, []shardmap.Member{{ID: "a", Weight: shardmap.MaxWeight}}},
		{"no id", append(same("a"), shardmap.Member{Weight: 1}), same("a")},
		{"long id", append(same("a"), same(long)...), same("a")},
		{"twice", []shardmap.Member{{ID: "a", Weight: 2}, {ID: "a", Weight: 7}, {ID: "a", Weight: 3}}, []shardmap.Member{{ID: "a", Weight: 7}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := shardmap.Assign(shardmap.New(8), tt.given, shardmap.Policy{}).Members(); !slices.Equal(got, tt.want) {
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

// The largest map there is: quotas, sums and index types must hold.
func TestAssignAtTheLimits(t *testing.T) {
	members := manyNodes(shardmap.MaxMembers)
	for i := range members {
		members[i].Weight = uint32(1 + i%shardmap.MaxWeight)
	}
	base := step(shardmap.New(shardmap.MaxShards), members)
	checkAssign(t, shardmap.New(shardmap.MaxShards), members, shardmap.Assign(shardmap.New(shardmap.MaxShards), members, shardmap.Policy{}))
	checkAssign(t, base, members[100:900], shardmap.Assign(base, members[100:900], shardmap.Policy{}))
}

// FuzzAssign lets the fuzzer choose the cluster's life: every byte pair is a
// member that joins, leaves or changes its weight, and every fourth step settles.
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
			m = got.Settle(m, m.Epoch()+1)
			roundTrip(t, m)
		}
	})
}
