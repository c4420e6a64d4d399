package shardmap_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"shardway/shardmap"
)

// assignWithEpoch is like assignNext, but with a policy.
func assignWithEpoch(base *shardmap.Map, members []shardmap.Member, p shardmap.Policy) *shardmap.Map {
	return shardmap.Assign(base, members, p).WithEpoch(base, base.Epoch()+1)
}

// randomPolicy returns a random policy for a pool of n nodes, of which the members were drawn. It
// also contains nodes that are not members.
func randomPolicy(r *rand.Rand, n, shards int) shardmap.Policy {
	p := shardmap.Policy{
		Cordoned: map[shardmap.NodeID]bool{}, Drained: map[shardmap.NodeID]bool{}, Weights: map[shardmap.NodeID]uint32{},
		Pins: map[shardmap.Shard]shardmap.Pin{}, Zones: map[shardmap.NodeID]string{}, Paused: r.IntN(5) == 0, Restarting: map[shardmap.NodeID]bool{},
		GraduallyDrained: map[shardmap.NodeID]bool{}, IdleShards: map[shardmap.Shard]bool{}, PinFallbacks: map[shardmap.Shard][]shardmap.NodeID{}, Emptied: map[shardmap.NodeID]bool{},
	}
	zones := []string{"", "x", "y", "z"}[:1+r.IntN(4)]
	if r.IntN(2) == 0 {
		for range shards {
			p.PreviousOwners = append(p.PreviousOwners, append(nodes(n), shardmap.Member{})[r.IntN(n+1)].ID)
		}
	}
	cordons, drains, away, gradual, emptied := r.IntN(4)*r.IntN(4), r.IntN(3)*2, r.IntN(3)*r.IntN(4), r.IntN(3)*r.IntN(4), r.IntN(3)*r.IntN(5)
	for s := range shardmap.Shard(shards + 1) {
		p.IdleShards[s] = r.IntN(2) == 0
	}
	for _, mb := range nodes(n) {
		if r.IntN(10) < emptied {
			p.Emptied[mb.ID] = true
		}
		if r.IntN(10) < gradual {
			p.GraduallyDrained[mb.ID] = true
		}
		if r.IntN(10) < away {
			p.Restarting[mb.ID] = true
		}
		if r.IntN(10) < cordons {
			p.Cordoned[mb.ID] = true
		}
		if r.IntN(10) < drains {
			p.Drained[mb.ID] = true
		}
		if r.IntN(5) == 0 {
			p.Weights[mb.ID] = 1 + r.Uint32N(5)
		}
		if r.IntN(20) > 0 {
			p.Zones[mb.ID] = zones[r.IntN(len(zones))]
		}
	}
	if r.IntN(2) == 0 {
		return p
	}
	few := 1 + r.IntN(n) // pins to few nodes are the hardest case
	for range r.IntN(shards + 1) {
		pin := shardmap.Pin{Node: nodes(n)[r.IntN(few)].ID}
		if r.IntN(2) == 0 {
			pin = shardmap.Pin{Zone: []string{"x", "y", "z"}[r.IntN(3)]}
		}
		shard := shardmap.Shard(r.IntN(shards + 1)) // may be a shard that does not exist
		p.Pins[shard] = pin
		delete(p.PinFallbacks, shard)
		if pin.Node != "" && r.IntN(2) == 0 {
			p.PinFallbacks[shard] = []shardmap.NodeID{nodes(n)[r.IntN(n)].ID, nodes(n)[r.IntN(n)].ID}
		}
	}
	return p
}

// Each chain is a cluster whose policy and members change in every step.
func TestPolicyHoldsOverManyChanges(t *testing.T) {
	r := rand.New(rand.NewPCG(21, 22))
	for i := range 300 {
		m := shardmap.New(1 + r.IntN(1<<r.IntN(9)))
		pool := 1 + r.IntN(12)
		for range 8 {
			members, p := randomMembers(r, pool), randomPolicy(r, pool, m.Len())
			got := shardmap.Assign(m, members, p)
			newReference(m, members, p).check(t, got, false)
			m = got.WithEpoch(m, m.Epoch()+1)
			if again := shardmap.Assign(m, members, p); again.Digest() != m.Digest() {
				t.Errorf("repeated Assign: %d moves", len(shardmap.Diff(m, again)))
			}
			if t.Failed() {
				t.Fatalf("chain %d: %d shards, members %v, policy %+v", i, m.Len(), members, p)
			}
		}
	}
}

// The test tries all assignments of the shards of a stage that the policy permits.
func TestPolicyMovesMatchExhaustiveSearch(t *testing.T) {
	r := rand.New(rand.NewPCG(23, 24))
	for i := range 2000 {
		base := assignWithEpoch(shardmap.New(1+r.IntN(6)), randomMembers(r, 4), shardmap.Policy{})
		members, p := randomMembers(r, 4), randomPolicy(r, 4, base.Len())
		newReference(base, members, p).check(t, shardmap.Assign(base, members, p), true)
		if t.Failed() {
			t.Fatalf("case %d: owners %v, members %v, policy %+v", i, owners(base), members, p)
		}
	}
}

func TestPolicyCases(t *testing.T) {
	type (
		ids    = map[shardmap.NodeID]bool
		counts = map[shardmap.NodeID]int
	)
	ab, abc := assignNext(shardmap.New(12), equalMembers("a", "b")), assignNext(shardmap.New(12), equalMembers("a", "b", "c"))
	lopsided := assignNext(shardmap.New(36), []shardmap.Member{{ID: "a", Weight: 5}, {ID: "b", Weight: 1}})
	zones := map[shardmap.NodeID]string{"a": "x", "b": "x", "c": "y"}
	fallbacks := func(nodes ...shardmap.NodeID) map[shardmap.Shard][]shardmap.NodeID {
		out := map[shardmap.Shard][]shardmap.NodeID{}
		for s := range shardmap.Shard(12) {
			out[s] = nodes
		}
		return out
	}
	pinned := func(pin shardmap.Pin, shards ...shardmap.Shard) map[shardmap.Shard]shardmap.Pin {
		pins := map[shardmap.Shard]shardmap.Pin{}
		for _, s := range shards {
			pins[s] = pin
		}
		return pins
	}
	idle := func(shards ...shardmap.Shard) map[shardmap.Shard]bool {
		set := map[shardmap.Shard]bool{}
		for _, s := range shards {
			set[s] = true
		}
		return set
	}
	var all []shardmap.Shard
	for s := range shardmap.Shard(12) {
		all = append(all, s)
	}
	tests := []struct {
		name    string
		prev    *shardmap.Map
		members []shardmap.Member
		p       shardmap.Policy
		counts  counts
		moves   int
	}{
		{"a cordoned newcomer gets nothing", ab, equalMembers("a", "b", "c"), shardmap.Policy{Cordoned: ids{"c": true}}, counts{"a": 6, "b": 6, "c": 0}, 0},
		{"a cordoned owner gives to a newcomer", ab, equalMembers("a", "b", "c"), shardmap.Policy{Cordoned: ids{"a": true}}, counts{"a": 4, "b": 4, "c": 4}, 4},
		{"a cordoned owner takes nothing of the dead", abc, equalMembers("a", "b"), shardmap.Policy{Cordoned: ids{"a": true}}, counts{"a": 4, "b": 8}, 4},
		{"all cordoned: what has no other place", abc, equalMembers("a", "b"), shardmap.Policy{Cordoned: ids{"a": true, "b": true}}, counts{"a": 6, "b": 6}, 4},
		{"all cordoned: nothing else moves", ab, equalMembers("a", "b", "c"), shardmap.Policy{Cordoned: ids{"a": true, "b": true, "c": true}}, counts{"c": 0}, 0},
		{"drained", abc, equalMembers("a", "b", "c"), shardmap.Policy{Drained: ids{"c": true}}, counts{"a": 6, "b": 6, "c": 0}, 4},
		{"rather cordoned than drained", abc, equalMembers("a", "b", "c"), shardmap.Policy{Drained: ids{"c": true, "b": true}, Cordoned: ids{"a": true}}, counts{"a": 12}, 8},
		{"a live weight", ab, equalMembers("a", "b"), shardmap.Policy{Weights: map[shardmap.NodeID]uint32{"a": 2}}, counts{"a": 8, "b": 4}, 2},
		{"an absent owner keeps what it has, and a newcomer gets of the others", ab, equalMembers("a", "b", "c"), shardmap.Policy{Restarting: ids{"a": true}}, counts{"a": 6, "b": 3, "c": 3}, 3},
		{"an absent owner takes nothing of the dead", abc, equalMembers("a", "b"), shardmap.Policy{Restarting: ids{"a": true}}, counts{"a": 4, "b": 8}, 4},
		{"an absent owner keeps what a drain, a pin and a weight would take", ab, equalMembers("a", "b"), shardmap.Policy{Restarting: ids{"a": true}, Drained: ids{"a": true}, Weights: map[shardmap.NodeID]uint32{"b": 9}, Pins: pinned(shardmap.Pin{Node: "b"}, all...)}, counts{"a": 6, "b": 6}, 0},
		{"pinned to who is absent", ab, equalMembers("a", "b"), shardmap.Policy{Restarting: ids{"a": true}, Pins: pinned(shardmap.Pin{Node: "a"}, all...)}, counts{"a": 6, "b": 6}, 0},
		{"one that is being emptied keeps what is busy", abc, equalMembers("a", "b", "c"), shardmap.Policy{GraduallyDrained: ids{"c": true}, IdleShards: idle(slices.Collect(abc.Shards("c"))[1:]...)}, counts{"c": 1}, 3},
		{"and gets nothing of a newcomer's share, nor what is pinned to it", ab, equalMembers("a", "b", "c"), shardmap.Policy{GraduallyDrained: ids{"a": true}, Pins: pinned(shardmap.Pin{Node: "a"}, all...)}, counts{"a": 6, "b": 3, "c": 3}, 3},
		{"what is idle at others stays", abc, equalMembers("a", "b", "c"), shardmap.Policy{GraduallyDrained: ids{"c": true}, IdleShards: idle(slices.Collect(abc.Shards("a"))...)}, counts{"a": 4, "b": 4, "c": 4}, 0},
		{"it empties though moves are paused", ab, equalMembers("a", "b"), shardmap.Policy{Paused: true, GraduallyDrained: ids{"a": true}, IdleShards: idle(all...)}, counts{"a": 0, "b": 12}, 6},
		{"rather a cordoned one than none", ab, equalMembers("a", "b"), shardmap.Policy{Cordoned: ids{"b": true}, GraduallyDrained: ids{"a": true}, IdleShards: idle(all...)}, counts{"a": 0, "b": 12}, 6},
		{"it keeps all while it is absent", ab, equalMembers("a", "b"), shardmap.Policy{Restarting: ids{"a": true}, GraduallyDrained: ids{"a": true}, IdleShards: idle(all...)}, counts{"a": 6, "b": 6}, 0},
		{"and if nobody else may have it", ab, equalMembers("a", "b"), shardmap.Policy{GraduallyDrained: ids{"a": true, "b": true}, IdleShards: idle(all...)}, counts{"a": 6, "b": 6}, 0},
		{"an emptied member owns nothing", abc, equalMembers("a", "b", "c"), shardmap.Policy{Emptied: ids{"c": true}}, counts{"a": 6, "b": 6, "c": 0}, 4},
		{"and gets no pinned shard", ab, equalMembers("a", "b", "c"), shardmap.Policy{Emptied: ids{"a": true}, Pins: pinned(shardmap.Pin{Node: "a"}, all...)}, counts{"a": 0, "b": 6, "c": 6}, 6},
		{"all members are emptied: every shard stays", ab, equalMembers("a", "b"), shardmap.Policy{Emptied: ids{"a": true, "b": true}}, counts{"a": 6, "b": 6}, 0},
		{"an emptied member keeps its shards while moves are paused, and gets no orphan", abc, equalMembers("a", "b"), shardmap.Policy{Paused: true, Emptied: ids{"a": true}}, counts{"a": 4, "b": 8}, 4},
		{"the shards of an emptied member go to a cordoned one if there is no other", ab, equalMembers("a", "b"), shardmap.Policy{Cordoned: ids{"b": true}, Emptied: ids{"a": true}}, counts{"a": 0, "b": 12}, 6},
		{"a gradual drain of an emptied member continues", ab, equalMembers("a", "b"), shardmap.Policy{Emptied: ids{"a": true}, GraduallyDrained: ids{"a": true}, IdleShards: idle(slices.Collect(ab.Shards("a"))[1:]...)}, counts{"a": 1, "b": 11}, 5},
		{"what is left to a cordoned and an absent one", abc, equalMembers("a", "b"), shardmap.Policy{Restarting: ids{"a": true}, Cordoned: ids{"b": true}}, counts{"a": 4, "b": 8}, 4},
		{"paused: a newcomer gets nothing", ab, equalMembers("a", "b", "c"), shardmap.Policy{Paused: true}, counts{"c": 0}, 0},
		{"paused: losses are placed, where there is least", assignNext(abc, equalMembers("a", "b")), equalMembers("a", "d"), shardmap.Policy{Paused: true}, counts{"a": 6, "d": 6}, 6},
		{"paused: a weight waits", ab, equalMembers("a", "b"), shardmap.Policy{Paused: true, Weights: map[shardmap.NodeID]uint32{"a": 9}}, counts{"a": 6, "b": 6}, 0},
		{"paused: a pin waits", ab, equalMembers("a", "b"), shardmap.Policy{Paused: true, Pins: pinned(shardmap.Pin{Node: "a"}, all...)}, nil, 0},
		{"pinned to several nodes, the first is there", abc, equalMembers("a", "b", "c"), shardmap.Policy{Pins: pinned(shardmap.Pin{Node: "c"}, all...), PinFallbacks: fallbacks("a", "b")}, counts{"c": 12}, 8},
		{"pinned to several nodes, the first is gone", abc, equalMembers("a", "b"), shardmap.Policy{Pins: pinned(shardmap.Pin{Node: "c"}, all...), PinFallbacks: fallbacks("b", "a")}, counts{"b": 12}, 8},
		{"pinned to several nodes, the first is cordoned, the second restarts", abc, equalMembers("a", "b", "c"), shardmap.Policy{Cordoned: ids{"b": true}, Restarting: ids{"c": true}, Pins: pinned(shardmap.Pin{Node: "b"}, all...), PinFallbacks: fallbacks("c", "a")}, counts{"a": 4, "b": 4, "c": 4}, 0},
		{"pinned to several nodes, and all are gone", ab, equalMembers("a", "b"), shardmap.Policy{Pins: pinned(shardmap.Pin{Node: "y"}, all...), PinFallbacks: fallbacks("z")}, nil, 0},
		{"all pinned to one", ab, equalMembers("a", "b"), shardmap.Policy{Pins: pinned(shardmap.Pin{Node: "a"}, all...)}, counts{"a": 12}, 6},
		{"pinned to who is gone", ab, equalMembers("a", "b"), shardmap.Policy{Pins: pinned(shardmap.Pin{Node: "z"}, all...)}, nil, 0},
		{"pinned to who is cordoned", ab, equalMembers("a", "b", "c"), shardmap.Policy{Cordoned: ids{"c": true}, Pins: pinned(shardmap.Pin{Node: "c"}, all...)}, nil, 0},
		{"a cordoned owner beside one with more pins than its quota", lopsided, equalMembers("a", "b", "c"), shardmap.Policy{Cordoned: ids{"b": true}, Pins: pinned(shardmap.Pin{Node: "a"}, slices.Collect(lopsided.Shards("a"))...)}, counts{"a": 30, "b": 3, "c": 3}, 3},
		{"pinned to a zone", abc, equalMembers("a", "b", "c"), shardmap.Policy{Zones: zones, Pins: pinned(shardmap.Pin{Zone: "x"}, all...)}, counts{"a": 6, "b": 6}, 4},
		{"pinned to a zone without nodes", abc, equalMembers("a", "b", "c"), shardmap.Policy{Zones: zones, Pins: pinned(shardmap.Pin{Zone: "q"}, all...)}, nil, 0},
		{"pinned to a zone of which nobody is known", abc, equalMembers("a", "b", "c"), shardmap.Policy{Pins: pinned(shardmap.Pin{Zone: "x"}, all...)}, nil, 0},
		{"pinned to a zone, not everybody's is known", abc, equalMembers("a", "b", "c"), shardmap.Policy{Zones: map[shardmap.NodeID]string{"a": "x", "c": "y"}, Pins: pinned(shardmap.Pin{Zone: "x"}, all...)}, nil, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := shardmap.Assign(tt.prev, tt.members, tt.p)
			newReference(tt.prev, tt.members, tt.p).check(t, got, false)
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

// If the quotas of cordoned members were rounded down, the other members would exceed their quotas
// in the next call of Assign, and shards would move without reason. So these quotas are rounded up.
func TestRepeatedAssignTakesNothingFromCordonedMembers(t *testing.T) {
	members := []shardmap.Member{{ID: "big", Weight: 1000}}
	first := shardmap.Policy{Weights: map[shardmap.NodeID]uint32{"big": 1}}
	p := shardmap.Policy{Cordoned: map[shardmap.NodeID]bool{}}
	for i := range 40 {
		id := shardmap.NodeID(fmt.Sprint("c", i))
		members = append(members, shardmap.Member{ID: id, Weight: 3})
		p.Cordoned[id] = true
	}
	m := assignWithEpoch(shardmap.New(1100), members, first)
	m = assignWithEpoch(m, members, p)
	if again := shardmap.Assign(m, members, p); again.Digest() != m.Digest() {
		t.Errorf("once more: %d moves", len(shardmap.Diff(m, again)))
	}
}

func TestPolicyIsIndependentOfOrder(t *testing.T) {
	r := rand.New(rand.NewPCG(25, 26))
	for range 300 {
		base := assignNext(shardmap.New(1+r.IntN(300)), randomMembers(r, 12))
		members, p := randomMembers(r, 12), randomPolicy(r, 12, base.Len())
		want := shardmap.Assign(base, members, p).Digest()
		for range 3 {
			given := slices.Clone(members)
			r.Shuffle(len(given), func(i, j int) { given[i], given[j] = given[j], given[i] })
			if shardmap.Assign(base, given, p).Digest() != want {
				t.Fatalf("another order, another map: %v and %v, policy %+v", members, given, p)
			}
		}
	}
}

// FuzzPolicy interprets the input as changes: each three bytes change the policy or the members.
func FuzzPolicy(f *testing.F) {
	f.Add(uint16(10), []byte{0, 1, 1, 1, 2, 9, 0, 0, 3, 255, 3, 4})
	f.Add(uint16(6), []byte{4, 1, 1, 4, 2, 1, 5, 3, 9, 6, 1, 2, 5, 4, 7, 0, 2, 2})
	f.Fuzz(func(t *testing.T, shards uint16, steps []byte) {
		m := shardmap.New(1 + int(shards)%300)
		in := map[shardmap.NodeID]bool{}
		p := shardmap.Policy{
			Cordoned: map[shardmap.NodeID]bool{}, Drained: map[shardmap.NodeID]bool{}, Weights: map[shardmap.NodeID]uint32{},
			Pins: map[shardmap.Shard]shardmap.Pin{}, Zones: map[shardmap.NodeID]string{}, Restarting: map[shardmap.NodeID]bool{}, GraduallyDrained: map[shardmap.NodeID]bool{}, IdleShards: map[shardmap.Shard]bool{}, Emptied: map[shardmap.NodeID]bool{},
		}
		for i := 0; i+2 < min(len(steps), 96); i += 3 {
			id, n := shardmap.NodeID(fmt.Sprint("n", steps[i+1]%8)), steps[i+2]
			switch steps[i] % 13 {
			case 12:
				p.Emptied[id] = n%2 == 0
			case 10:
				p.GraduallyDrained[id] = n%2 == 0
			case 11:
				p.IdleShards[shardmap.Shard(n)] = steps[i+1]%2 == 0
			case 9:
				p.Restarting[id] = n%2 == 0
			case 0:
				p.Cordoned[id] = n%2 == 0
			case 1:
				p.Drained[id] = n%2 == 0
			case 2:
				p.Weights[id] = 1 + uint32(n)
			case 3:
				p.Paused = n%2 == 0
			case 4:
				p.Zones[id] = string('x' + rune(n%3))
			case 5:
				p.Pins[shardmap.Shard(n)] = shardmap.Pin{Node: id}
			case 6:
				p.Pins[shardmap.Shard(n)] = shardmap.Pin{Zone: string('x' + rune(steps[i+1]%3))}
			default:
				in[id] = n%3 > 0
			}
			var members []shardmap.Member
			for id, here := range in {
				if here {
					members = append(members, shardmap.Member{ID: id, Weight: 1})
				}
			}
			got := shardmap.Assign(m, members, p)
			newReference(m, members, p).check(t, got, false)
			m = got.WithEpoch(m, m.Epoch()+1)
			if again := shardmap.Assign(m, members, p); again.Digest() != m.Digest() {
				t.Fatalf("once more: %d moves", len(shardmap.Diff(m, again)))
			}
		}
	})
}
