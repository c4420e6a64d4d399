package shardmap_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"shardway/shardmap"
)

// randomZones assigns each member one of up to n zones. Some members have no zone.
func randomZones(r *rand.Rand, members []shardmap.Member, n int) map[shardmap.NodeID]string {
	zones := map[shardmap.NodeID]string{}
	for _, member := range members {
		if zones[member.ID] = ""; r.IntN(6) > 0 {
			zones[member.ID] = fmt.Sprint("z", r.IntN(n))
		}
	}
	return zones
}

// Each zone has the same quota, and its members share it by weight. Each member differs from its quota by less than
// one shard. Another call moves nothing.
func TestEachZoneHasTheSameNumberOfShards(t *testing.T) {
	r := rand.New(rand.NewPCG(31, 1))
	m := shardmap.New(600)
	for range 200 {
		members := randomMembers(r, 9)
		if len(members) == 0 {
			continue
		}
		policy := shardmap.Policy{SpreadZones: true, Zones: randomZones(r, members, 3)}
		next := shardmap.Assign(m, members, policy)
		weights := map[string]int{}
		for _, member := range members {
			weights[policy.Zones[member.ID]] += int(member.Weight)
		}
		for _, member := range members {
			quota := float64(next.Len()) / float64(len(weights)) * float64(member.Weight) / float64(weights[policy.Zones[member.ID]])
			if got := float64(next.ShardCount(member.ID)); got <= quota-1.001 || got >= quota+1.001 {
				t.Fatalf("%s of weight %d in zone %q has %v shards, want %v; zones %v", member.ID, member.Weight, policy.Zones[member.ID], got, quota, policy.Zones)
			}
		}
		if again := shardmap.Assign(next, members, policy); again.Digest() != next.Digest() {
			t.Fatal("another call moves shards")
		}
		m = next.WithEpoch(m, m.Epoch()+1)
	}
}

// With zones of equal total weight, the spread over zones is the one by weights.
func TestEqualZonesChangeNothing(t *testing.T) {
	members := nodes(6)
	policy := shardmap.Policy{Zones: map[shardmap.NodeID]string{"n000": "a", "n001": "a", "n002": "b", "n003": "b", "n004": "c", "n005": "c"}}
	base := assignNext(shardmap.New(512), nodes(4))
	want := shardmap.Assign(base, members, policy)
	if policy.SpreadZones = true; shardmap.Assign(base, members, policy).Digest() != want.Digest() {
		t.Error("the map differs")
	}
}

// Right after an election the leader knows few zones. Only orphaned shards move then.
func TestUnknownZoneMovesOnlyOrphanedShards(t *testing.T) {
	policy := shardmap.Policy{SpreadZones: true, Zones: map[shardmap.NodeID]string{"n000": "a", "n001": "a", "n002": "a", "n003": "b"}}
	base := shardmap.New(120)
	spread := shardmap.Assign(base, nodes(4), policy).WithEpoch(base, 1)
	if got := spread.ShardCount("n003"); got != 60 {
		t.Fatalf("the node alone in its zone has %d shards, want 60", got)
	}
	delete(policy.Zones, "n001")
	if moves := shardmap.Diff(spread, shardmap.Assign(spread, nodes(4), policy)); len(moves) != 0 {
		t.Errorf("%d shards move", len(moves))
	}
	for _, move := range shardmap.Diff(spread, shardmap.Assign(spread, nodes(4)[1:], policy)) {
		if move.From != "n000" || move.To == "" {
			t.Errorf("shard %d moves from %q to %q", move.Shard, move.From, move.To)
		}
	}
}

// Shards of the largest and the smallest possible weights do not overflow.
func TestZonesOfExtremeWeights(t *testing.T) {
	members := nodes(shardmap.MaxMembers)
	policy := shardmap.Policy{SpreadZones: true, Zones: map[shardmap.NodeID]string{}}
	for i := range members {
		members[i].Weight = []uint32{1, 997, shardmap.MaxWeight}[i%3]
		policy.Zones[members[i].ID] = fmt.Sprint("z", i%61)
	}
	m := shardmap.Assign(shardmap.New(shardmap.MaxShards), members, policy)
	counts := map[string]int{}
	for _, member := range m.Members() {
		counts[policy.Zones[member.ID]] += m.ShardCount(member.ID)
	}
	for zone, count := range counts {
		if want := shardmap.MaxShards / 61; count < want-20 || count > want+20 {
			t.Errorf("zone %s has %d shards, want %d", zone, count, want)
		}
	}
}
