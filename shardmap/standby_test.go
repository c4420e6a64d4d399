package shardmap_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"shardway/shardmap"
)

// standbyCase is a random map with a policy for its standbys.
type standbyCase struct {
	shardMap *shardmap.Map
	members  []shardmap.Member
	policy   shardmap.Policy
}

// randomStandbyCase returns a map of several random membership changes. zones is the maximum number of zones.
func randomStandbyCase(r *rand.Rand, zones int) standbyCase {
	c := standbyCase{shardMap: shardmap.New(1 + r.IntN(200)), policy: shardmap.Policy{Replicas: 1 + r.IntN(3), Zones: map[shardmap.NodeID]string{}}}
	for range 3 {
		if c.members = randomMembers(r, 9); len(c.members) < 2 {
			c.members = nodes(2)
		}
		c.shardMap = assignNext(c.shardMap, c.members)
	}
	for _, member := range c.members {
		if zones > 0 {
			c.policy.Zones[member.ID] = fmt.Sprint("z", r.IntN(zones))
		}
	}
	return c
}

// without returns the members without those that match.
func without(members []shardmap.Member, match func(shardmap.NodeID) bool) []shardmap.Member {
	return slices.DeleteFunc(slices.Clone(members), func(member shardmap.Member) bool { return match(member.ID) })
}

func TestStandbysAreDistinctMembersOtherThanTheOwner(t *testing.T) {
	r := rand.New(rand.NewPCG(21, 1))
	for range 200 {
		c := randomStandbyCase(r, r.IntN(4))
		standbys := c.shardMap.Standbys(c.policy)
		for shard := range shardmap.Shard(c.shardMap.Len()) {
			list := standbys.Of(shard)
			if want := min(c.policy.Replicas, len(c.members)-1); len(list) != want {
				t.Fatalf("shard %d has %d standbys with %d members and %d replicas, want %d", shard, len(list), len(c.members), c.policy.Replicas, want)
			}
			seen := map[shardmap.NodeID]bool{c.shardMap.Owner(shard): true}
			for _, id := range list {
				if seen[id] || !c.shardMap.IsMember(id) || !standbys.IsCandidate(shard, id) {
					t.Fatalf("shard %d of %s has standbys %v", shard, c.shardMap.Owner(shard), list)
				}
				seen[id] = true
			}
		}
	}
}

// Nodes with different programs must compute the same standbys. A change of this digest is a change of the
// protocol.
func TestStandbysAreStableAcrossVersions(t *testing.T) {
	members := nodes(7)
	members[2].Weight, members[5].Weight = 3, 7
	m := assignNext(shardmap.New(256), members)
	standbys := m.Standbys(shardmap.Policy{Replicas: 3, Zones: map[shardmap.NodeID]string{"n000": "a", "n001": "a", "n002": "b", "n003": "b"}})
	var text strings.Builder
	for shard := range shardmap.Shard(m.Len()) {
		fmt.Fprintln(&text, standbys.Of(shard))
	}
	const want = "785819b4015ae62952f4ccf64e50a9afc7685b63654e60dde3aa3df8998dfdfb"
	hash := sha256.Sum256([]byte(text.String()))
	if got := hex.EncodeToString(hash[:]); got != want {
		t.Errorf("digest %s, want %s", got, want)
	}
}

func TestStandbysAreInOtherZonesIfPossible(t *testing.T) {
	r := rand.New(rand.NewPCG(21, 2))
	for range 200 {
		c := randomStandbyCase(r, 4)
		zones := map[string]bool{}
		for _, member := range c.members {
			zones[c.policy.Zones[member.ID]] = true
		}
		for shard := range shardmap.Shard(c.shardMap.Len()) {
			used := map[string]bool{c.policy.Zones[c.shardMap.Owner(shard)]: true}
			list := c.shardMap.Standbys(c.policy).Of(shard)
			for _, id := range list {
				used[c.policy.Zones[id]] = true
			}
			if want := min(len(list)+1, len(zones)); len(used) != want {
				t.Fatalf("owner %s and standbys %v of shard %d are in %d zones, want %d", c.shardMap.Owner(shard), list, shard, len(used), want)
			}
		}
	}
}

func TestDepartureOfANodeChangesOnlyStandbysOfItsShards(t *testing.T) {
	r := rand.New(rand.NewPCG(21, 3))
	for range 200 {
		c := randomStandbyCase(r, r.IntN(4))
		gone := c.members[r.IntN(len(c.members))].ID
		next := shardmap.Assign(c.shardMap, without(c.members, func(id shardmap.NodeID) bool { return id == gone }), c.policy)
		before, after := c.shardMap.Standbys(c.policy), next.Standbys(c.policy)
		for shard := range shardmap.Shard(c.shardMap.Len()) {
			owner, list := c.shardMap.Owner(shard), before.Of(shard)
			if owner == gone || slices.Contains(list, gone) {
				continue
			}
			if next.Owner(shard) != owner || !slices.Equal(after.Of(shard), list) {
				t.Fatalf("%s left: shard %d of %s with standbys %v, now %s with %v", gone, shard, owner, list, next.Owner(shard), after.Of(shard))
			}
		}
	}
}

func TestFirstStandbyThatCanReceiveTakesOver(t *testing.T) {
	r := rand.New(rand.NewPCG(21, 4))
	taken := 0
	for range 300 {
		c := randomStandbyCase(r, r.IntN(4))
		gone := map[shardmap.NodeID]bool{}
		for range 1 + r.IntN(2) {
			gone[c.members[r.IntN(len(c.members))].ID] = true
		}
		cordoned := c.members[r.IntN(len(c.members))].ID
		c.policy.Cordoned = map[shardmap.NodeID]bool{cordoned: r.IntN(2) == 0}
		standbys, barred := c.shardMap.Standbys(c.policy), shardmap.ShardSet{}
		for shard := range shardmap.Shard(c.shardMap.Len()) {
			if r.IntN(5) == 0 {
				barred.Add(shard)
			}
		}
		barredNode := c.members[r.IntN(len(c.members))].ID
		placement := c.policy
		placement.Barred = map[shardmap.NodeID]shardmap.ShardSet{barredNode: barred}
		next := shardmap.Assign(c.shardMap, without(c.members, func(id shardmap.NodeID) bool { return gone[id] }), placement)
		for shard := range shardmap.Shard(c.shardMap.Len()) {
			list := slices.DeleteFunc(standbys.Of(shard), func(id shardmap.NodeID) bool {
				return gone[id] || id == barredNode && barred.Has(shard)
			})
			if owner := c.shardMap.Owner(shard); !gone[owner] || len(list) == 0 {
				continue
			}
			taken++
			if next.Owner(shard) != list[0] {
				t.Fatalf("shard %d went to %s, want the first standby of %v (barred %s: %v)", shard, next.Owner(shard), list, barredNode, barred.Has(shard))
			}
		}
	}
	if taken < 1000 {
		t.Errorf("only %d takeovers", taken)
	}
}

// A takeover moves no shard of a live owner. The call after it makes the shards even with the fewest moves.
func TestShardsAreEvenAfterTheCallThatFollowsATakeover(t *testing.T) {
	r := rand.New(rand.NewPCG(21, 5))
	for range 200 {
		c := randomStandbyCase(r, r.IntN(4))
		gone := c.members[r.IntN(len(c.members))].ID
		rest := without(c.members, func(id shardmap.NodeID) bool { return id == gone })
		takeover := shardmap.Assign(c.shardMap, rest, c.policy)
		if moves := shardmap.Diff(c.shardMap, takeover); len(moves) != c.shardMap.ShardCount(gone) {
			t.Fatalf("%d moves for %d shards of %s", len(moves), c.shardMap.ShardCount(gone), gone)
		}
		takeover = takeover.WithEpoch(c.shardMap, c.shardMap.Epoch()+1)
		even := shardmap.Assign(takeover, rest, c.policy)
		checkAssign(t, takeover, rest, even)
		if again := shardmap.Assign(even, rest, c.policy); again.Digest() != even.Digest() {
			t.Fatal("a third call moves shards")
		}
	}
}

func TestReplicasChangeNothingWhileAllOwnersRemain(t *testing.T) {
	r := rand.New(rand.NewPCG(21, 6))
	for range 200 {
		c := randomStandbyCase(r, 2)
		members := append(slices.Clone(c.members), shardmap.Member{ID: "new", Weight: 2})
		withReplicas := shardmap.Assign(c.shardMap, members, c.policy)
		c.policy.Replicas = 0
		if withReplicas.Digest() != shardmap.Assign(c.shardMap, members, c.policy).Digest() {
			t.Fatal("replicas change a map in which no owner is gone")
		}
	}
}

func TestNoReplicasMeansNoStandbys(t *testing.T) {
	m := assignNext(shardmap.New(8), nodes(3))
	standbys := m.Standbys(shardmap.Policy{})
	if !standbys.IsEmpty() || len(standbys.Of(1)) != 0 || standbys.Replicas(1) != 0 || standbys.IsCandidate(1, "n000") {
		t.Error("a map without replicas has standbys")
	}
}

func TestStandbysFollowWeights(t *testing.T) {
	members := nodes(5)
	members[4].Weight = 4
	m := assignNext(shardmap.New(4000), equalMembers("x", "y"))
	m = assignNext(m, append(members, equalMembers("x")...))
	standbys, counts := m.Standbys(shardmap.Policy{Replicas: 1}), map[shardmap.NodeID]int{}
	owned := 0
	for shard := range m.Shards("x") {
		counts[standbys.Of(shard)[0]]++
		owned++
	}
	for _, member := range members {
		want := owned * int(member.Weight) / 8
		if got := counts[member.ID]; got < want*7/10 || got > want*13/10 {
			t.Errorf("%s of weight %d is standby of %d shards of %d, want about %d", member.ID, member.Weight, got, owned, want)
		}
	}
}

func TestStandbysFollowPins(t *testing.T) {
	m := assignNext(shardmap.New(64), nodes(6))
	owner := m.Owner(7)
	fallbacks := []shardmap.NodeID{}
	for _, member := range m.Members() {
		if member.ID != owner && len(fallbacks) < 2 {
			fallbacks = append(fallbacks, member.ID)
		}
	}
	slices.Reverse(fallbacks)
	policy := shardmap.Policy{Replicas: 2, Pins: map[shardmap.Shard]shardmap.Pin{7: {Node: owner}}, PinFallbacks: map[shardmap.Shard][]shardmap.NodeID{7: fallbacks}}
	if got := m.Standbys(policy).Of(7); !slices.Equal(got, fallbacks) {
		t.Errorf("standbys %v, want the fallbacks of the pin %v", got, fallbacks)
	}
	policy = shardmap.Policy{Replicas: 1, Zones: map[shardmap.NodeID]string{}, Pins: map[shardmap.Shard]shardmap.Pin{7: {Zone: "east"}}}
	for _, id := range append(fallbacks, owner) {
		policy.Zones[id] = "east"
	}
	if got := m.Standbys(policy).Of(7); !slices.Contains(fallbacks, got[0]) {
		t.Errorf("standby %v of a shard that is pinned to the zone of %v", got, fallbacks)
	}
	next := shardmap.Assign(m, without(m.Members(), func(id shardmap.NodeID) bool { return id == owner }), policy)
	if want := m.Standbys(policy).Of(7)[0]; next.Owner(7) != want {
		t.Errorf("shard went to %s, want %s in the zone of its pin", next.Owner(7), want)
	}
}

func TestStandbysExcludeNodesThatMayNotReceive(t *testing.T) {
	m := assignNext(shardmap.New(64), nodes(6))
	set := func(id shardmap.NodeID) map[shardmap.NodeID]bool { return map[shardmap.NodeID]bool{id: true} }
	policy := shardmap.Policy{Replicas: 5, Cordoned: set("n001"), GraduallyDrained: set("n002"), Emptied: set("n003"), Drained: set("n004")}
	for shard := range m.Shards("n000") {
		if got := m.Standbys(policy).Of(shard); !slices.Equal(got, []shardmap.NodeID{"n005"}) {
			t.Fatalf("standbys %v, want only n005", got)
		}
	}
}

// Each service has its own number of standbys. Only nodes that own a shard of the service can be standbys, and
// shard numbers count within the service.
func TestEachServiceHasItsOwnStandbys(t *testing.T) {
	run := func(ids ...shardmap.NodeID) map[shardmap.NodeID]shardmap.InstanceSet {
		instances := map[shardmap.NodeID]shardmap.InstanceSet{}
		for _, id := range ids {
			instances[id] = 0
		}
		return instances
	}
	services := []shardmap.Service{
		{First: 0, Count: 16, Instances: run("n000", "n001")},
		{First: 16, Count: 64, Instances: run("n000", "n001", "n002"), Replicas: 1},
	}
	policy := shardmap.Policy{Services: services}
	base := shardmap.New(80)
	m := shardmap.Assign(base, nodes(4), policy).WithEpoch(base, 1)
	standbys := m.Standbys(policy)
	if got := standbys.Of(3); len(got) != 0 {
		t.Errorf("a service without replicas has standbys %v", got)
	}
	next := shardmap.Assign(m, without(nodes(4), func(id shardmap.NodeID) bool { return id == "n002" }), policy)
	for shard := shardmap.Shard(16); shard < 80; shard++ {
		list := standbys.Of(shard)
		if len(list) != 1 || list[0] == "n003" {
			t.Fatalf("shard %d has standbys %v, want one node of the service", shard, list)
		}
		if m.Owner(shard) == "n002" && next.Owner(shard) != list[0] {
			t.Fatalf("shard %d went to %s, want %s", shard, next.Owner(shard), list[0])
		}
	}
}

func TestStandbysWithOtherInputsAreNotEqual(t *testing.T) {
	m := assignNext(shardmap.New(64), nodes(5))
	policy := func(change func(*shardmap.Policy)) shardmap.Policy {
		p := shardmap.Policy{Replicas: 2, Zones: map[shardmap.NodeID]string{"n000": "a", "n001": "b"}, Pins: map[shardmap.Shard]shardmap.Pin{3: {Node: "n001"}}, PinFallbacks: map[shardmap.Shard][]shardmap.NodeID{3: {"n002"}}}
		change(&p)
		return p
	}
	standbys := m.Standbys(policy(func(*shardmap.Policy) {}))
	if !standbys.Equal(m.Standbys(policy(func(*shardmap.Policy) {}))) {
		t.Error("standbys with the same inputs differ")
	}
	if standbys.Equal(assignNext(m, nodes(5)).Standbys(policy(func(*shardmap.Policy) {}))) {
		t.Error("standbys of another map are equal")
	}
	for name, change := range map[string]func(*shardmap.Policy){
		"replicas": func(p *shardmap.Policy) { p.Replicas = 1 },
		"zone":     func(p *shardmap.Policy) { p.Zones["n001"] = "a" },
		"cordon":   func(p *shardmap.Policy) { p.Cordoned = map[shardmap.NodeID]bool{"n003": true} },
		"pin":      func(p *shardmap.Policy) { p.Pins[4] = shardmap.Pin{Zone: "a"} },
		"fallback": func(p *shardmap.Policy) { p.PinFallbacks[3] = []shardmap.NodeID{"n003"} },
		"services": func(p *shardmap.Policy) { p.Services = []shardmap.Service{{Count: 32, Replicas: 2}} },
	} {
		if standbys.Equal(m.Standbys(policy(change))) {
			t.Errorf("standbys with another %s are equal", name)
		}
	}
}
