package shardmap_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"shardway/shardmap"
)

// instanceSet returns the set of the given instances.
func instanceSet(instances ...shardmap.Instance) shardmap.InstanceSet {
	var set shardmap.InstanceSet
	for i, instance := range instances {
		if i == 0 {
			set = shardmap.InstanceSet(1) << instance
			if instance == 0 {
				set = 0
			}
			continue
		}
		set = set.With(instance)
	}
	return set
}

// loadsOf returns the number of shards at each instance of a node.
func loadsOf(m *shardmap.Map, node shardmap.NodeID) map[shardmap.Instance]int {
	loads := map[shardmap.Instance]int{}
	for shard := range m.Shards(node) {
		loads[m.Instance(shard)]++
	}
	return loads
}

func TestInstanceSetHasOneValuePerSet(t *testing.T) {
	if got := instanceSet(0); got != 0 {
		t.Errorf("the set of the first instance is %b, want 0", got)
	}
	if got := instanceSet(2, 0).All(); !slices.Equal(got, []shardmap.Instance{0, 2}) {
		t.Errorf("instances %v", got)
	}
	if got, empty := instanceSet(0, 1).Without(func(in shardmap.Instance) bool { return in == 1 }); got != 0 || empty {
		t.Errorf("the rest is %b, %v, want 0, false", got, empty)
	}
	if _, empty := instanceSet(0).Without(func(shardmap.Instance) bool { return true }); !empty {
		t.Error("the empty set is not reported")
	}
	if got := shardmap.InstancesUpTo(3); got != 7 || shardmap.InstancesUpTo(1) != 0 || shardmap.InstancesUpTo(shardmap.MaxInstances).Len() != shardmap.MaxInstances {
		t.Errorf("three instances: %b", got)
	}
}

func TestInstanceIDIsTheNodeForTheFirstInstance(t *testing.T) {
	if id := shardmap.InstanceID("a", 0); id != "a" {
		t.Errorf("first: %s", id)
	}
	for _, tt := range []struct {
		id       shardmap.NodeID
		node     shardmap.NodeID
		instance shardmap.Instance
		isNamed  bool
	}{
		{"a", "a", 0, false},
		{"a/1", "a", 0, true},
		{"a/3", "a", 2, true},
		{"a/32", "a", 31, true},
		{"a/0", "a/0", 0, false},
		{"a/33", "a/33", 0, false},
		{"a/01", "a/01", 0, false},
		{"a/+1", "a/+1", 0, false},
		{"a/x", "a/x", 0, false},
	} {
		node, instance, isNamed := shardmap.ParseInstance(tt.id)
		if node != tt.node || instance != tt.instance || isNamed != tt.isNamed {
			t.Errorf("ParseInstance(%q) = %s, %d, %v", tt.id, node, instance, isNamed)
		}
	}
}

func TestFailedInstanceLosesItsShardsToItsSiblings(t *testing.T) {
	const shards = 1024
	members := []shardmap.Member{{ID: "a", Weight: 1, Instances: 7}, {ID: "b", Weight: 1, Instances: 7}, {ID: "c", Weight: 2}}
	before := assignNext(shardmap.New(shards), members)
	for _, id := range []shardmap.NodeID{"a", "b"} {
		if loads := loadsOf(before, id); len(loads) != 3 || max(loads[0], loads[1], loads[2])-min(loads[0], loads[1], loads[2]) > 1 {
			t.Errorf("instances of %s own %v", id, loads)
		}
	}
	members[0].Instances = instanceSet(0, 2) // the second instance of a has failed
	after := assignNext(before, members)
	lost := 0
	for _, move := range shardmap.Diff(before, after) {
		if !move.IsWithinNode() || move.From != "a" || move.FromInstance != 1 {
			t.Errorf("another shard moved: %+v", move)
		}
		if after.OwnedSince(move.Shard) != after.Epoch() {
			t.Errorf("shard %d moved without another ownership epoch", move.Shard)
		}
		lost++
	}
	if lost != before.InstanceCount("a", 1) || after.InstanceCount("a", 1) != 0 {
		t.Errorf("%d shards moved, the failed instance owned %d", lost, before.InstanceCount("a", 1))
	}
	for shard := range shardmap.Shard(shards) {
		if before.HasSameOwner(after, shard) && before.OwnedSince(shard) != after.OwnedSince(shard) {
			t.Errorf("shard %d has another ownership epoch without a move", shard)
		}
	}

	// When the instance returns, it gets an even share, and no sibling gets anything.
	members[0].Instances = 7
	returned := shardmap.Assign(after, members, shardmap.Policy{PreviousOwners: previousOwners(before, after)})
	back := 0
	for _, move := range shardmap.Diff(after, returned) {
		if move.To != "a" || move.ToInstance != 1 {
			t.Errorf("another instance got a shard: %+v", move)
		}
		if before.IsOwnedBy(move.Shard, "a", 1) {
			back++
		}
	}
	if back != returned.InstanceCount("a", 1) {
		t.Errorf("%d of %d shards returned to their previous instance", back, returned.InstanceCount("a", 1))
	}
}

// previousOwners returns the owner of each shard before the moves from one map to the next.
func previousOwners(from, to *shardmap.Map) []shardmap.NodeID {
	previous := make([]shardmap.NodeID, from.Len())
	for _, move := range shardmap.Diff(from, to) {
		previous[move.Shard] = shardmap.InstanceID(move.From, move.FromInstance)
	}
	return previous
}

func TestNodeWithOneInstanceIsEncodedAsBefore(t *testing.T) {
	one := assignNext(shardmap.New(64), []shardmap.Member{{ID: "a", Weight: 1, Instances: 1}, {ID: "b", Weight: 1}})
	if encoded := encode(t, one); encoded[0] != 1 {
		t.Errorf("encoding version %d", encoded[0])
	}
	two := assignNext(one, []shardmap.Member{{ID: "a", Weight: 1, Instances: 3}, {ID: "b", Weight: 1}})
	if encoded := encode(t, two); encoded[0] != 2 {
		t.Errorf("encoding version %d with two instances", encoded[0])
	}
	again := assignNext(two, []shardmap.Member{{ID: "a", Weight: 1}, {ID: "b", Weight: 1}})
	if encoded := encode(t, again); encoded[0] != 1 {
		t.Errorf("encoding version %d after the second instance has gone", encoded[0])
	}
	if two.HasSameOwners(one) || again.Digest() == one.Digest() {
		t.Error("maps with other instances count as equal")
	}
}

func TestDrainedInstanceOwnsNothing(t *testing.T) {
	members := []shardmap.Member{{ID: "a", Weight: 1, Instances: 3}, {ID: "b", Weight: 1, Instances: 3}}
	before := assignNext(shardmap.New(64), members)
	drained := shardmap.Policy{Drained: map[shardmap.NodeID]bool{"a/1": true}}
	after := shardmap.Assign(before, members, drained)
	if loads := loadsOf(after, "a"); loads[0] != 0 || loads[1] != 32 {
		t.Errorf("drained: %v", loads)
	}
	drained.Drained["a/2"] = true
	if after = shardmap.Assign(after, members, drained); after.IsMember("a") {
		t.Error("a node without undrained instances is a member")
	}
}

func TestDeferredMoveWaitsOnlyAtAHealthyInstance(t *testing.T) {
	members := []shardmap.Member{{ID: "a", Weight: 1, Instances: 7}}
	before := assignNext(shardmap.New(60), members)
	policy := shardmap.Policy{DefersMoves: map[shardmap.NodeID]bool{"a": true}, Drained: map[shardmap.NodeID]bool{"a/1": true}}
	members[0].Instances = instanceSet(0, 2) // instance 2 has failed, and instance 1 is drained
	after := shardmap.Assign(before, members, policy)
	if loads := loadsOf(after, "a"); loads[0] != 20 || loads[1] != 0 || loads[2] != 40 {
		t.Errorf("shards per instance: %v, want the busy ones of instance 1 only", loads)
	}
}

// A drained node that keeps busy shards has no instance that could receive further shards.
func TestDrainedNodeHasOnlyInstancesOfItsBusyShards(t *testing.T) {
	members := []shardmap.Member{{ID: "a", Weight: 1, Instances: 7}, {ID: "b", Weight: 1}}
	before := assignNext(shardmap.New(60), members)
	policy := shardmap.Policy{DefersMoves: map[shardmap.NodeID]bool{"a": true}, IdleShards: map[shardmap.Shard]bool{}}
	for shard := range before.Shards("a") {
		policy.IdleShards[shard] = before.Instance(shard) != 2
	}
	after := shardmap.Assign(before, members[1:], policy)
	if want := []shardmap.Member{{ID: "a", Weight: 1, Instances: instanceSet(2)}, {ID: "b", Weight: 1}}; !slices.Equal(after.Members(), want) {
		t.Errorf("members %v, want %v", after.Members(), want)
	}
	if loads := loadsOf(after, "a"); loads[0] != 0 || loads[1] != 0 || loads[2] != 10 {
		t.Errorf("shards per instance: %v, want the busy ones of instance 3", loads)
	}
}

func TestShardReturnsToNoBarredInstance(t *testing.T) {
	members := []shardmap.Member{{ID: "a", Weight: 1, Instances: 3}, {ID: "b", Weight: 1}}
	before := assignNext(shardmap.New(64), []shardmap.Member{{ID: "a", Weight: 1, Instances: 2}, {ID: "b", Weight: 1}})
	var all, some shardmap.ShardSet
	for shard := range shardmap.Shard(64) {
		all.Add(shard)
		if shard%4 == 0 {
			some.Add(shard)
		}
	}
	some.Add(63)
	policy := shardmap.Policy{Barred: map[shardmap.NodeID]shardmap.ShardSet{"a": some}}
	after := shardmap.Assign(before, members, policy)
	for _, move := range shardmap.Diff(before, after) {
		if move.To == "a" && move.ToInstance == 0 && some.Has(move.Shard) {
			t.Errorf("barred shard %d moved to instance 1", move.Shard)
		}
	}
	if after.InstanceCount("a", 0) == 0 {
		t.Error("no shard moved to instance 1")
	}
	// A node is barred only if all its instances are.
	policy.Barred = map[shardmap.NodeID]shardmap.ShardSet{"a": all}
	if alone := shardmap.Assign(assignNext(shardmap.New(64), equalMembers("b")), members, policy); alone.InstanceCount("a", 1) != 32 || alone.InstanceCount("a", 0) != 0 {
		t.Errorf("a owns %v", loadsOf(alone, "a"))
	}
}

// TestInstancesStayEvenOverManyChanges checks the properties of the spread over instances with random
// members: it is even, moves the minimum, is stable, and does not influence which node owns a shard.
func TestInstancesStayEvenOverManyChanges(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 3))
		m := shardmap.New(1 + r.IntN(300))
		for step := range 12 {
			members := randomMembers(r, 6)
			plain := slices.Clone(members)
			for i := range members {
				if r.IntN(3) > 0 {
					members[i].Instances = shardmap.InstanceSet(1 + r.UintN(31))
				}
			}
			next := shardmap.Assign(m, members, shardmap.Policy{})
			name := fmt.Sprintf("seed %d, step %d", seed, step)
			checkInstances(t, name, m, next)
			withoutInstances := shardmap.Assign(m, plain, shardmap.Policy{})
			for shard := range shardmap.Shard(m.Len()) {
				if next.Owner(shard) != withoutInstances.Owner(shard) {
					t.Fatalf("%s: instances changed the owner of shard %d", name, shard)
				}
			}
			if again := shardmap.Assign(next, members, shardmap.Policy{}); !again.HasSameOwners(next) {
				t.Fatalf("%s: another call moves shards", name)
			}
			m = next.WithEpoch(m, m.Epoch()+1)
			roundTrip(t, m)
		}
	}
}

// checkInstances checks the spread over instances in the map after a change from prev.
func checkInstances(t *testing.T, name string, prev, next *shardmap.Map) {
	t.Helper()
	for _, member := range next.Members() {
		loads := loadsOf(next, member.ID)
		smallest, largest, total := next.Len(), 0, 0
		for _, instance := range member.Instances.All() {
			smallest, largest, total = min(smallest, loads[instance]), max(largest, loads[instance]), total+loads[instance]
		}
		if largest-smallest > 1 || total != next.ShardCount(member.ID) {
			t.Fatalf("%s: instances %v of %s own %v of %d shards", name, member.Instances.All(), member.ID, loads, next.ShardCount(member.ID))
		}
		// An instance that remains keeps its shards up to its share, rounded up.
		kept := map[shardmap.Instance]int{}
		for shard := range next.Shards(member.ID) {
			if prev.IsOwnedBy(shard, member.ID, next.Instance(shard)) {
				kept[next.Instance(shard)]++
			}
		}
		for _, instance := range member.Instances.All() {
			owned := 0
			for shard := range next.Shards(member.ID) {
				if prev.IsOwnedBy(shard, member.ID, instance) {
					owned++
				}
			}
			if want := min(owned, loads[instance]); kept[instance] < want {
				t.Fatalf("%s: instance %d of %s kept %d of %d shards", name, instance, member.ID, kept[instance], owned)
			}
		}
	}
}

func BenchmarkAssignInstances(b *testing.B) {
	members := nodes(4)
	for i := range members {
		members[i].Instances = shardmap.InstancesUpTo(8)
	}
	full := assignNext(shardmap.New(shardmap.MaxShards), members)
	members[0].Instances = 0xfe
	for b.Loop() {
		shardmap.Assign(full, members, shardmap.Policy{})
	}
}
