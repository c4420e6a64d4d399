package shardmap_test

import (
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"shardway/shardmap"
)

// bars is a policy's Barred in the making.
type bars map[shardmap.NodeID]shardmap.ShardSet

func (b bars) add(id shardmap.NodeID, shards ...shardmap.Shard) bars {
	for _, s := range shards {
		set := b[id]
		set.Add(s)
		b[id] = set
	}
	return b
}

// left bars each member from what moved away from it between two maps.
func (b bars) left(from, to *shardmap.Map) {
	for _, mv := range shardmap.Diff(from, to) {
		if mv.From != "" {
			b.add(mv.From, mv.Shard)
		}
	}
}

// randomBars bars each of n nodes from about share of ten of the shards.
func randomBars(r *rand.Rand, n, shards, share int) bars {
	b := bars{}
	for _, mb := range nodes(n) {
		for s := range shardmap.Shard(shards) {
			if r.IntN(10) < share {
				b.add(mb.ID, s)
			}
		}
	}
	return b
}

// checkReturns reports what is wrong with got under a policy without pins and absences:
// a move to a barred member that was not needed, and a single move that would make the
// spread more even.
func checkReturns(t *testing.T, prev *shardmap.Map, p shardmap.Policy, got *shardmap.Map) {
	t.Helper()
	checkBooks(t, got)
	weight, open := map[shardmap.NodeID]int{}, map[shardmap.NodeID]bool{}
	for _, mb := range got.Members() {
		weight[mb.ID], open[mb.ID] = int(mb.Weight), !p.Cordoned[mb.ID]
	}
	if !slices.Contains(slices.Collect(maps.Values(open)), true) {
		for id := range open {
			open[id] = true
		}
	}
	free := func(id shardmap.NodeID, s shardmap.Shard) bool { return open[id] && !p.Barred[id].Has(s) }
	better := func(u, v shardmap.NodeID) bool {
		return (2*got.Count(u)-1)*weight[v] > (2*got.Count(v)+1)*weight[u]
	}
	for s := range shardmap.Shard(got.Len()) {
		was, is := prev.Owner(s), got.Owner(s)
		if !got.Has(was) {
			was = ""
		}
		if is == "" {
			t.Fatalf("shard %d is orphaned", s)
		}
		if is != was && !free(is, s) {
			if was != "" {
				t.Fatalf("shard %d moved from %q to %q, which is barred from it", s, was, is)
			}
			for id := range open {
				if free(id, s) {
					t.Fatalf("shard %d without an owner went to the barred %q, %q may get it", s, is, id)
				}
			}
			continue
		}
		if p.Paused && was != "" {
			if is != was {
				t.Fatalf("shard %d moved in a pause", s)
			}
			continue
		}
		for id := range open {
			if id != is && open[is] && free(id, s) && better(is, id) {
				t.Fatalf("shard %d is with %q (%d shards), %q (%d shards) may get it", s, is, got.Count(is), id, got.Count(id))
			}
		}
		if is != was && was != "" && free(was, s) && better(is, was) {
			t.Fatalf("shard %d moved from %q to %q for nothing", s, was, is)
		}
	}
}

func TestBarredMembersGetOnlyWhatNoOtherMayGet(t *testing.T) {
	r := rand.New(rand.NewPCG(41, 42))
	for i := range 1500 {
		pool := 1 + r.IntN(8)
		m := step(shardmap.New(1+r.IntN(1<<r.IntN(9))), randomMembers(r, pool))
		members := randomMembers(r, pool)
		if len(members) == 0 {
			continue
		}
		p := shardmap.Policy{Barred: randomBars(r, pool, m.Len(), r.IntN(11)), Paused: r.IntN(4) == 0, Cordoned: map[shardmap.NodeID]bool{}}
		if r.IntN(3) == 0 {
			p.Cordoned[nodes(pool)[r.IntN(pool)].ID] = true
		}
		got := shardmap.Assign(m, members, p)
		if plain := shardmap.Assign(m, members, shardmap.Policy{Paused: p.Paused, Cordoned: p.Cordoned}); plain.SameAs(got) {
			continue // the bars did not matter, and the tests of the policy judge it
		}
		checkReturns(t, m, p, got)
		if again := shardmap.Assign(got.Settle(m, m.Epoch()+1), members, p); !again.SameAs(got) {
			t.Errorf("once more: %d moves", len(shardmap.Diff(got, again)))
		}
		if t.Failed() {
			t.Fatalf("case %d: %d shards, members %v, cordoned %v, paused %v", i, m.Len(), members, p.Cordoned, p.Paused)
		}
	}
}

// Nothing goes back over a life in which no app restarts, except to the last one standing.
func TestNothingReturnsOverAClustersLife(t *testing.T) {
	r := rand.New(rand.NewPCG(43, 44))
	for range 200 {
		pool := 2 + r.IntN(6)
		m, b := step(shardmap.New(64), nodes(pool)), bars{}
		for range 12 {
			members := nodes(pool)
			r.Shuffle(pool, func(i, j int) { members[i], members[j] = members[j], members[i] })
			members = members[:1+r.IntN(pool)]
			p := shardmap.Policy{Barred: b}
			next := settled(m, members, p)
			for _, mv := range shardmap.Diff(m, next) {
				if !b[mv.To].Has(mv.Shard) {
					continue
				}
				for _, mb := range members {
					if !b[mb.ID].Has(mv.Shard) {
						t.Fatalf("shard %d went back to %q, %q never had it", mv.Shard, mv.To, mb.ID)
					}
				}
			}
			b.left(m, next)
			m = next
		}
	}
}

func TestReturnsCases(t *testing.T) {
	abc := step(shardmap.New(12), same("a", "b", "c"))
	drained := step(abc, same("b", "c"))
	was := slices.Collect(abc.Shards("a"))
	var all []shardmap.Shard
	for s := range shardmap.Shard(12) {
		all = append(all, s)
	}
	pins := func(pin shardmap.Pin) map[shardmap.Shard]shardmap.Pin {
		out := map[shardmap.Shard]shardmap.Pin{}
		for _, s := range was {
			out[s] = pin
		}
		return out
	}
	zones := map[shardmap.NodeID]string{"a": "x", "b": "y", "c": "y"}
	tests := []struct {
		name    string
		prev    *shardmap.Map
		members []shardmap.Member
		p       shardmap.Policy
		counts  map[shardmap.NodeID]int
		moves   int
	}{
		{"uncordon gives a node what it never had", drained, same("a", "b", "c"), shardmap.Policy{Barred: bars{}.add("a", was...)}, map[shardmap.NodeID]int{"a": 4, "b": 4, "c": 4}, 4},
		{"a node that had everything stays empty", drained, same("a", "b", "c"), shardmap.Policy{Barred: bars{}.add("a", all...)}, map[shardmap.NodeID]int{"a": 0, "b": 6, "c": 6}, 0},
		{"the last node gets everything", abc, same("b"), shardmap.Policy{Barred: bars{}.add("b", all...)}, map[shardmap.NodeID]int{"b": 12}, 8},
		{"a pin to a barred node waits", drained, same("a", "b", "c"), shardmap.Policy{Paused: false, Cordoned: map[shardmap.NodeID]bool{}, Barred: bars{}.add("a", all...), Pins: pins(shardmap.Pin{Node: "a"})}, map[shardmap.NodeID]int{"a": 0}, 0},
		{"a pin to a barred zone waits", drained, same("a", "b", "c"), shardmap.Policy{Barred: bars{}.add("a", all...), Zones: zones, Pins: pins(shardmap.Pin{Zone: "x"})}, map[shardmap.NodeID]int{"a": 0}, 0},
		{"the third node takes what the second had, and gives it others", abc, same("b", "c"), shardmap.Policy{Barred: bars{}.add("b", was...)}, map[shardmap.NodeID]int{"c": 6, "b": 6}, 6},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := shardmap.Assign(tt.prev, tt.members, tt.p)
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

func TestShardSet(t *testing.T) {
	var x, y shardmap.ShardSet
	x.Add(3)
	y.Add(3)
	y.Add(shardmap.MaxShards - 1)
	z := x.Union(y)
	for s, want := range map[shardmap.Shard]bool{3: true, 4: false, shardmap.MaxShards - 1: true} {
		if z.Has(s) != want || y.Union(x).Has(s) != want {
			t.Errorf("Has(%d) = %t, want %t", s, z.Has(s), want)
		}
	}
	if x.Has(shardmap.MaxShards - 1) {
		t.Error("Union changed its operand")
	}
}

// The largest cluster in which every node has had half of all shards.
func BenchmarkAssignBarred(b *testing.B) {
	r := rand.New(rand.NewPCG(45, 46))
	for _, n := range []int{3, 20, 100} {
		m := step(shardmap.New(shardmap.MaxShards), nodes(n))
		p := shardmap.Policy{Barred: randomBars(r, n+1, m.Len(), 5)}
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			for b.Loop() {
				shardmap.Assign(m, nodes(n+1), p)
			}
		})
	}
}

// FuzzReturns lets the fuzzer choose who is there at each step, and whose app restarts.
func FuzzReturns(f *testing.F) {
	f.Add(uint16(10), []byte{7, 3, 7, 6, 7, 0x85, 7})
	f.Fuzz(func(t *testing.T, shards uint16, steps []byte) {
		m, b := shardmap.New(1+int(shards)%300), bars{}
		for _, x := range steps[:min(len(steps), 48)] {
			if x&0x80 != 0 {
				delete(b, nodes(7)[x%7].ID)
				continue
			}
			var members []shardmap.Member
			for i, mb := range nodes(7) {
				if x>>i&1 == 1 {
					members = append(members, mb)
				}
			}
			if len(members) == 0 {
				continue
			}
			p := shardmap.Policy{Barred: b}
			got := shardmap.Assign(m, members, p)
			if !got.SameAs(shardmap.Assign(m, members, shardmap.Policy{})) {
				checkReturns(t, m, p, got)
			} else {
				checkAssign(t, m, members, got)
			}
			next := got.Settle(m, m.Epoch()+1)
			if again := shardmap.Assign(next, members, p); !again.SameAs(next) {
				t.Fatalf("once more: %d moves", len(shardmap.Diff(next, again)))
			}
			b.left(m, next)
			m = next
		}
	})
}
