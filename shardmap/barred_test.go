package shardmap_test

import (
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"shardway/shardmap"
)

// barredSets is the value of Policy.Barred.
type barredSets map[shardmap.NodeID]shardmap.ShardSet

func (b barredSets) add(id shardmap.NodeID, shards ...shardmap.Shard) barredSets {
	for _, s := range shards {
		set := b[id]
		set.Add(s)
		b[id] = set
	}
	return b
}

// left bars each member from the shards that moved away from it between two maps.
func (b barredSets) left(from, to *shardmap.Map) {
	for _, mv := range shardmap.Diff(from, to) {
		if mv.From != "" {
			b.add(mv.From, mv.Shard)
		}
	}
}

// randomBars bars each of n nodes from about share tenths of the shards.
func randomBarred(r *rand.Rand, n, shards, share int) barredSets {
	b := barredSets{}
	for _, mb := range nodes(n) {
		for s := range shardmap.Shard(shards) {
			if r.IntN(10) < share {
				b.add(mb.ID, s)
			}
		}
	}
	return b
}

// checkBarred fails the test if got, under a policy without pins and absent members, contains an
// unnecessary move to a barred member, or if moving one more shard would make the result more even.
func checkBarred(t *testing.T, prev *shardmap.Map, p shardmap.Policy, got *shardmap.Map) {
	t.Helper()
	checkConsistent(t, got)
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
		return (2*got.ShardCount(u)-1)*weight[v] > (2*got.ShardCount(v)+1)*weight[u]
	}
	for s := range shardmap.Shard(got.Len()) {
		was, is := prev.Owner(s), got.Owner(s)
		if !got.IsMember(was) {
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
				t.Fatalf("shard %d moved while paused", s)
			}
			continue
		}
		for id := range open {
			if id != is && open[is] && free(id, s) && better(is, id) {
				t.Fatalf("shard %d is with %q (%d shards), %q (%d shards) may get it", s, is, got.ShardCount(is), id, got.ShardCount(id))
			}
		}
		if is != was && was != "" && free(was, s) && better(is, was) {
			t.Fatalf("shard %d moved from %q to %q unnecessarily", s, was, is)
		}
	}
}

func TestBarredMembersReceiveOnlyShardsThatNoOtherMemberCanOwn(t *testing.T) {
	r := rand.New(rand.NewPCG(41, 42))
	for i := range 1500 {
		pool := 1 + r.IntN(8)
		m := assignNext(shardmap.New(1+r.IntN(1<<r.IntN(9))), randomMembers(r, pool))
		members := randomMembers(r, pool)
		if len(members) == 0 {
			continue
		}
		p := shardmap.Policy{Barred: randomBarred(r, pool, m.Len(), r.IntN(11)), Paused: r.IntN(4) == 0, Cordoned: map[shardmap.NodeID]bool{}}
		if r.IntN(3) == 0 {
			p.Cordoned[nodes(pool)[r.IntN(pool)].ID] = true
		}
		got := shardmap.Assign(m, members, p)
		if plain := shardmap.Assign(m, members, shardmap.Policy{Paused: p.Paused, Cordoned: p.Cordoned}); plain.HasSameOwners(got) {
			continue // no constraint applied: the policy tests cover this case
		}
		checkBarred(t, m, p, got)
		if again := shardmap.Assign(got.WithEpoch(m, m.Epoch()+1), members, p); !again.HasSameOwners(got) {
			t.Errorf("repeated Assign: %d moves", len(shardmap.Diff(got, again)))
		}
		if t.Failed() {
			t.Fatalf("case %d: %d shards, members %v, cordoned %v, paused %v", i, m.Len(), members, p.Cordoned, p.Paused)
		}
	}
}

// If no app restarts, no shard returns to a former owner, unless all other members are barred as
// well.
func TestShardsDoNotReturnToBarredMembers(t *testing.T) {
	r := rand.New(rand.NewPCG(43, 44))
	for range 200 {
		pool := 2 + r.IntN(6)
		m, b := assignNext(shardmap.New(64), nodes(pool)), barredSets{}
		for range 12 {
			members := nodes(pool)
			r.Shuffle(pool, func(i, j int) { members[i], members[j] = members[j], members[i] })
			members = members[:1+r.IntN(pool)]
			p := shardmap.Policy{Barred: b}
			next := assignWithEpoch(m, members, p)
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

func TestBarredCases(t *testing.T) {
	abc := assignNext(shardmap.New(12), equalMembers("a", "b", "c"))
	drained := assignNext(abc, equalMembers("b", "c"))
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
		{"an uncordoned node receives shards that it never owned", drained, equalMembers("a", "b", "c"), shardmap.Policy{Barred: barredSets{}.add("a", was...)}, map[shardmap.NodeID]int{"a": 4, "b": 4, "c": 4}, 4},
		{"a node that owned all shards stays empty", drained, equalMembers("a", "b", "c"), shardmap.Policy{Barred: barredSets{}.add("a", all...)}, map[shardmap.NodeID]int{"a": 0, "b": 6, "c": 6}, 0},
		{"the last node receives all shards", abc, equalMembers("b"), shardmap.Policy{Barred: barredSets{}.add("b", all...)}, map[shardmap.NodeID]int{"b": 12}, 8},
		{"a pin to a barred node is deferred", drained, equalMembers("a", "b", "c"), shardmap.Policy{Paused: false, Cordoned: map[shardmap.NodeID]bool{}, Barred: barredSets{}.add("a", all...), Pins: pins(shardmap.Pin{Node: "a"})}, map[shardmap.NodeID]int{"a": 0}, 0},
		{"a pin to a barred zone is deferred", drained, equalMembers("a", "b", "c"), shardmap.Policy{Barred: barredSets{}.add("a", all...), Zones: zones, Pins: pins(shardmap.Pin{Zone: "x"})}, map[shardmap.NodeID]int{"a": 0}, 0},
		{"the third node receives the barred shards and gives others away", abc, equalMembers("b", "c"), shardmap.Policy{Barred: barredSets{}.add("b", was...)}, map[shardmap.NodeID]int{"c": 6, "b": 6}, 6},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := shardmap.Assign(tt.prev, tt.members, tt.p)
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

// Each node is barred from half of all shards.
func BenchmarkAssignBarred(b *testing.B) {
	r := rand.New(rand.NewPCG(45, 46))
	for _, n := range []int{3, 20, 100} {
		m := assignNext(shardmap.New(shardmap.MaxShards), nodes(n))
		p := shardmap.Policy{Barred: randomBarred(r, n+1, m.Len(), 5)}
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			for b.Loop() {
				shardmap.Assign(m, nodes(n+1), p)
			}
		})
	}
}

// FuzzBarred interprets the input as steps: each byte is a set of members, or an app that restarts.
func FuzzBarred(f *testing.F) {
	f.Add(uint16(10), []byte{7, 3, 7, 6, 7, 0x85, 7})
	f.Fuzz(func(t *testing.T, shards uint16, steps []byte) {
		m, b := shardmap.New(1+int(shards)%300), barredSets{}
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
			if !got.HasSameOwners(shardmap.Assign(m, members, shardmap.Policy{})) {
				checkBarred(t, m, p, got)
			} else {
				checkAssign(t, m, members, got)
			}
			next := got.WithEpoch(m, m.Epoch()+1)
			if again := shardmap.Assign(next, members, p); !again.HasSameOwners(next) {
				t.Fatalf("once more: %d moves", len(shardmap.Diff(next, again)))
			}
			b.left(m, next)
			m = next
		}
	})
}

// An emptied member keeps the shards that no other member may receive.
func TestEmptiedMemberKeepsShardsFromWhichOthersAreBarred(t *testing.T) {
	prev := assignNext(shardmap.New(12), equalMembers("a", "b", "c"))
	kept := slices.Collect(prev.Shards("c"))[0]
	barred := barredSets{}.add("a", kept).add("b", kept, slices.Collect(prev.Shards("c"))[1])
	got := shardmap.Assign(prev, equalMembers("a", "b", "c"), shardmap.Policy{Emptied: map[shardmap.NodeID]bool{"c": true}, Barred: barred})
	if got.ShardCount("c") != 1 || got.Owner(kept) != "c" {
		t.Errorf("c owns %v, want shard %d only", slices.Collect(got.Shards("c")), kept)
	}
	if second := slices.Collect(prev.Shards("c"))[1]; got.Owner(second) != "a" {
		t.Errorf("shard %d is at %s, want a", second, got.Owner(second))
	}
}

// A substitute receives only orphaned shards from which it is not barred and all receivers are.
func TestSubstituteReceivesShardsFromWhichReceiversAreBarred(t *testing.T) {
	type ids = map[shardmap.NodeID]bool
	prev := assignNext(shardmap.New(12), equalMembers("a", "b"))
	ofA, members := slices.Collect(prev.Shards("a")), equalMembers("b", "c", "d")
	barred := barredSets{}.add("b", ofA[:5]...).add("c", ofA[0], ofA[1]).add("d", ofA[0])
	for name, test := range map[string]struct {
		policy  shardmap.Policy
		b, c, d int
	}{
		"without substitutes":         {shardmap.Policy{Emptied: ids{"c": true, "d": true}}, 12, 0, 0},
		"emptied":                     {shardmap.Policy{Emptied: ids{"c": true, "d": true}, Substitutes: ids{"c": true, "d": true}}, 8, 2, 2},
		"emptied, during a pause":     {shardmap.Policy{Paused: true, Emptied: ids{"c": true, "d": true}, Substitutes: ids{"c": true, "d": true}}, 8, 2, 2},
		"cordoned":                    {shardmap.Policy{Cordoned: ids{"c": true, "d": true}, Substitutes: ids{"c": true, "d": true}}, 8, 2, 2},
		"one of two":                  {shardmap.Policy{Emptied: ids{"c": true, "d": true}, Substitutes: ids{"c": true}}, 9, 3, 0},
		"restarting":                  {shardmap.Policy{Emptied: ids{"c": true, "d": true}, Restarting: ids{"d": true}, Substitutes: ids{"d": true}}, 12, 0, 0},
		"gradually drained":           {shardmap.Policy{Emptied: ids{"c": true}, GraduallyDrained: ids{"d": true}, Substitutes: ids{"d": true}}, 12, 0, 0},
		"a receiver that may own all": {shardmap.Policy{Emptied: ids{"c": true}, Substitutes: ids{"c": true}, Barred: barredSets{}.add("c", ofA...)}, 6, 0, 6},
	} {
		t.Run(name, func(t *testing.T) {
			if test.policy.Barred == nil {
				test.policy.Barred = barred
			}
			got := shardmap.Assign(prev, members, test.policy)
			if b, c, d := got.ShardCount("b"), got.ShardCount("c"), got.ShardCount("d"); b != test.b || c != test.c || d != test.d {
				t.Errorf("b owns %d, c %d and d %d, want %d, %d and %d", b, c, d, test.b, test.c, test.d)
			}
			if again := shardmap.Assign(got, members, test.policy); !again.HasSameOwners(got) {
				t.Errorf("once more: %v", shardmap.Diff(got, again))
			}
		})
	}
}
