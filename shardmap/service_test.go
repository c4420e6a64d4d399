package shardmap_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"shardway/shardmap"
)

// everyNodeRuns returns a service of count shards that all members run with all their instances.
func everyNodeRuns(first shardmap.Shard, count int, members []shardmap.Member) shardmap.Service {
	service := shardmap.Service{First: first, Count: count, Instances: map[shardmap.NodeID]shardmap.InstanceSet{}}
	for _, member := range members {
		service.Instances[member.ID] = member.Instances
	}
	return service
}

// randomServices returns services with random ranges of up to shards shards in all. Each is run by some
// of n nodes, with some of three instances.
func randomServices(r *rand.Rand, n, shards int) []shardmap.Service {
	var services []shardmap.Service
	for first := r.IntN(3); first < shards; first += r.IntN(3) {
		service := everyNodeRuns(shardmap.Shard(first), 1+r.IntN(shards-first), nil)
		for _, member := range nodes(n) {
			if r.IntN(3) > 0 {
				service.Instances[member.ID] = shardmap.InstanceSet(1 + r.IntN(7)).Normalized()
			}
		}
		services = append(services, service)
		first = service.End()
	}
	return services
}

// withInstances gives each member a random set of up to three instances.
func withInstances(r *rand.Rand, members []shardmap.Member) []shardmap.Member {
	for i := range members {
		members[i].Instances = shardmap.InstanceSet(1 + r.IntN(7)).Normalized()
	}
	return members
}

// runsOf returns the members that run the service, with their instances of it, or restart in place.
func runsOf(service shardmap.Service, members []shardmap.Member, restarting map[shardmap.NodeID]bool) []shardmap.Member {
	var running []shardmap.Member
	for _, member := range members {
		var common []shardmap.Instance
		set, runs := service.Instances[member.ID]
		for _, instance := range member.Instances.All() {
			if runs && set.Has(instance) {
				common = append(common, instance)
			}
		}
		switch {
		case restarting[member.ID]:
			running = append(running, member)
		case len(common) > 0:
			member.Instances = instanceSet(common...)
			running = append(running, member)
		}
	}
	return running
}

// within returns the policy for the shards of the service, numbered from zero.
func within(service shardmap.Service, p shardmap.Policy) shardmap.Policy {
	part := p
	part.Services, part.PreviousOwners, part.Assigned = nil, nil, map[shardmap.Shard]shardmap.NodeID{}
	part.IdleShards, part.KeptShards = map[shardmap.Shard]bool{}, map[shardmap.Shard]bool{}
	part.Pins, part.PinFallbacks = map[shardmap.Shard]shardmap.Pin{}, map[shardmap.Shard][]shardmap.NodeID{}
	for i := range shardmap.Shard(service.Count) {
		shard := service.First + i
		part.IdleShards[i], part.KeptShards[i] = p.IdleShards[shard], p.KeptShards[shard]
		if owner, isAssigned := p.Assigned[shard]; isAssigned {
			part.Assigned[i] = owner
		}
		if pin, isPinned := p.Pins[shard]; isPinned {
			part.Pins[i], part.PinFallbacks[i] = pin, p.PinFallbacks[shard]
		}
		if len(p.PreviousOwners) > 0 {
			part.PreviousOwners = append(part.PreviousOwners, p.PreviousOwners[shard])
		}
	}
	return part
}

// hasService reports whether a service has the shard.
func hasService(services []shardmap.Service, shard shardmap.Shard) bool {
	return slices.ContainsFunc(services, func(service shardmap.Service) bool {
		return shard >= service.First && int(shard) < service.End()
	})
}

func TestOneServiceOfAllMembersIsPlacedLikeNoService(t *testing.T) {
	r := rand.New(rand.NewPCG(41, 42))
	for i := range 300 {
		m := shardmap.New(1 + r.IntN(200))
		for range 6 {
			members, p := withInstances(r, randomMembers(r, 8)), randomPolicy(r, 8, m.Len())
			for _, member := range members {
				p.DefersMoves = map[shardmap.NodeID]bool{member.ID: true}
			}
			want := shardmap.Assign(m, members, p)
			p.Services = []shardmap.Service{everyNodeRuns(0, m.Len(), members)}
			if got := shardmap.Assign(m, members, p); got.Digest() != want.Digest() {
				t.Fatalf("chain %d: %d moves between both results: members %v, policy %+v", i, len(shardmap.Diff(want, got)), members, p)
			}
			m = want.WithEpoch(m, m.Epoch()+1)
		}
	}
}

// Each service must be placed as the reference places its shards on the members that run it.
func TestServicesArePlacedSeparately(t *testing.T) {
	r := rand.New(rand.NewPCG(43, 44))
	for i := range 400 {
		shards, pool := 1+r.IntN(1<<r.IntN(9)), 1+r.IntN(8)
		m, services := shardmap.New(shards), randomServices(r, pool, shards)
		for range 6 {
			if r.IntN(3) == 0 { // other nodes run the same services
				for i := range services {
					services[i].Instances = maps.Clone(services[i].Instances)
					services[i].Instances[nodes(pool)[r.IntN(pool)].ID] = shardmap.InstanceSet(1 + r.IntN(7)).Normalized()
					delete(services[i].Instances, nodes(pool)[r.IntN(pool)].ID)
				}
			}
			members, p := withInstances(r, randomMembers(r, pool)), randomPolicy(r, pool, shards)
			p.Services = services
			got := shardmap.Assign(m, members, p)
			checkServices(t, m, members, p, got)
			m = got.WithEpoch(m, m.Epoch()+1)
			if again := shardmap.Assign(m, members, p); len(services) > 0 && again.Digest() != m.Digest() {
				t.Errorf("repeated Assign: %d moves", len(shardmap.Diff(m, again)))
			}
			if t.Failed() {
				t.Fatalf("chain %d: %d shards, members %v, policy %+v", i, shards, members, p)
			}
		}
	}
}

// checkServices fails the test if got, which Assign returned, violates a guarantee of a service.
func checkServices(t *testing.T, prev *shardmap.Map, members []shardmap.Member, p shardmap.Policy, got *shardmap.Map) {
	t.Helper()
	checkConsistent(t, got)
	for shard := range shardmap.Shard(got.Len()) {
		if len(p.Services) > 0 && !hasService(p.Services, shard) && got.Owner(shard) != "" {
			t.Errorf("shard %d of no service belongs to %q", shard, got.Owner(shard))
		}
	}
	for _, service := range p.Services {
		running := runsOf(service, members, p.Restarting)
		before, after := prev.Part(service), got.Part(service)
		newReference(before, running, within(service, p)).checkOwners(t, after, false)
		for _, member := range running {
			for shard := range after.Shards(member.ID) {
				if !member.Instances.Has(after.Instance(shard)) && !p.Restarting[member.ID] && !p.Paused {
					t.Errorf("shard %d of the service at %d is at instance %d of %s, which runs %v", shard, service.First, after.Instance(shard), member.ID, member.Instances.All())
				}
			}
		}
	}
}

// A map that defers moves differs from the final map only in the busy shards of the owners that defer them.
func TestDeferredMovesInfluenceNoOtherService(t *testing.T) {
	r := rand.New(rand.NewPCG(48, 49))
	for range 500 {
		shards := 1 + r.IntN(40)
		services := randomServices(r, 6, shards)
		base := assignWithEpoch(shardmap.New(shards), withInstances(r, randomMembers(r, 6)), shardmap.Policy{Services: services})
		members, p := withInstances(r, randomMembers(r, 6)), randomPolicy(r, 6, shards)
		p.Services, p.GraduallyDrained = services, nil
		final := shardmap.Assign(base, members, p)
		p.DefersMoves = map[shardmap.NodeID]bool{}
		for _, member := range base.Members() {
			p.DefersMoves[member.ID] = r.IntN(2) == 0
		}
		for _, move := range shardmap.Diff(final, shardmap.Assign(base, members, p)) {
			if move.IsWithinNode() {
				continue
			}
			if owner := base.Owner(move.Shard); !p.DefersMoves[owner] || p.IdleShards[move.Shard] || move.To != owner {
				t.Fatalf("shard %d of %q goes to %q instead of %q: members %v, services %v", move.Shard, owner, move.To, move.From, members, services)
			}
		}
	}
}

func TestServicesAreIndependentOfOrder(t *testing.T) {
	r := rand.New(rand.NewPCG(45, 46))
	for range 200 {
		shards := 1 + r.IntN(100)
		members, p := withInstances(r, randomMembers(r, 8)), randomPolicy(r, 8, shards)
		p.Services = randomServices(r, 8, shards)
		base := assignWithEpoch(shardmap.New(shards), withInstances(r, randomMembers(r, 8)), p)
		want := shardmap.Assign(base, members, p).Digest()
		r.Shuffle(len(members), func(i, j int) { members[i], members[j] = members[j], members[i] })
		r.Shuffle(len(p.Services), func(i, j int) { p.Services[i], p.Services[j] = p.Services[j], p.Services[i] })
		if shardmap.Assign(base, members, p).Digest() != want {
			t.Fatalf("the order changes the map: members %v, services %v", members, p.Services)
		}
	}
}

// Three services of different sizes on five nodes, of which some run two: the acceptance case of the
// feature.
func threeServices() (members []shardmap.Member, services []shardmap.Service) {
	run := func(first shardmap.Shard, count int, ids ...shardmap.NodeID) shardmap.Service {
		return everyNodeRuns(first, count, equalMembers(ids...))
	}
	services = []shardmap.Service{
		run(0, 1024, "a", "b", "c"), run(1024, 100, "c", "d", "e"), run(1124, 7, "a", "e"),
	}
	return equalMembers("a", "b", "c", "d", "e"), services
}

// isEvenAmong fails the test unless the given nodes own all shards of the service, and the numbers of two
// of them differ by at most one.
func isEvenAmong(t *testing.T, m *shardmap.Map, service shardmap.Service, ids ...shardmap.NodeID) {
	t.Helper()
	part := m.Part(service)
	least, most, sum := part.Len(), 0, 0
	for _, id := range ids {
		least, most, sum = min(least, part.ShardCount(id)), max(most, part.ShardCount(id)), sum+part.ShardCount(id)
	}
	if most-least > 1 || sum != part.Len() {
		t.Errorf("the nodes %v own %d of %d shards of the service at %d, from %d to %d each", ids, sum, part.Len(), service.First, least, most)
	}
}

func TestLossOfANodeMovesOnlyItsShards(t *testing.T) {
	members, services := threeServices()
	p := shardmap.Policy{Services: services}
	m := assignWithEpoch(shardmap.New(1024), members, p)
	isEvenAmong(t, m, services[0], "a", "b", "c")
	isEvenAmong(t, m, services[1], "c", "d", "e")
	isEvenAmong(t, m, services[2], "a", "e")
	survivors := slices.DeleteFunc(slices.Clone(members), func(member shardmap.Member) bool { return member.ID == "e" })
	next := shardmap.Assign(m, survivors, p)
	isEvenAmong(t, next, services[0], "a", "b", "c")
	isEvenAmong(t, next, services[1], "c", "d")
	isEvenAmong(t, next, services[2], "a")
	for _, move := range shardmap.Diff(m, next) {
		if move.From != "e" {
			t.Errorf("shard %d moves from %q", move.Shard, move.From)
		}
	}
	if got := len(shardmap.Diff(m, next)); got != m.ShardCount("e") {
		t.Errorf("%d moves, want the %d shards of e", got, m.ShardCount("e"))
	}
}

func TestNewServiceMovesNoOtherShard(t *testing.T) {
	members, services := threeServices()
	before := assignWithEpoch(shardmap.New(1024), members, shardmap.Policy{Services: services[:2]})
	after := assignWithEpoch(before, members, shardmap.Policy{Services: services})
	if before.Len() != 1124 || after.Len() != 1131 {
		t.Fatalf("the maps have %d and %d shards, want 1124 and 1131", before.Len(), after.Len())
	}
	for _, move := range shardmap.Diff(before, after) {
		if int(move.Shard) < before.Len() || move.From != "" {
			t.Errorf("shard %d moves from %q", move.Shard, move.From)
		}
	}
	isEvenAmong(t, after, services[2], "a", "e")
}

func TestServiceWithoutNodeIsOrphaned(t *testing.T) {
	members, services := threeServices()
	p := shardmap.Policy{Services: services}
	m := assignWithEpoch(shardmap.New(1024), members, p)
	next := assignWithEpoch(m, members[1:4], p) // a and e run the third service
	if orphans := next.Part(services[2]).OrphanCount(); orphans != 7 || next.OrphanCount() != 7 {
		t.Errorf("%d orphans of the service without a node, %d in all, want 7", orphans, next.OrphanCount())
	}
	isEvenAmong(t, next, services[0], "b", "c")
	back := assignWithEpoch(next, members, p)
	isEvenAmong(t, back, services[2], "a", "e")
}

func TestRemovedServiceLeavesOrphans(t *testing.T) {
	members, services := threeServices()
	m := assignWithEpoch(shardmap.New(1024), members, shardmap.Policy{Services: services})
	next := assignWithEpoch(m, members, shardmap.Policy{Services: []shardmap.Service{services[0], services[2]}})
	if next.Len() != m.Len() || next.OrphanCount() != 100 || next.Part(services[1]).OrphanCount() != 100 {
		t.Errorf("%d shards with %d orphans, want %d with the 100 of the removed service", next.Len(), next.OrphanCount(), m.Len())
	}
	for _, move := range shardmap.Diff(m, next) {
		if move.To != "" {
			t.Errorf("shard %d moves to %q", move.Shard, move.To)
		}
	}
}

func TestSmallServicesAreSpreadOverAllNodes(t *testing.T) {
	members := nodes(5)
	var services []shardmap.Service
	for i := range shardmap.Shard(20) {
		services = append(services, everyNodeRuns(i, 1, members))
	}
	m := shardmap.Assign(shardmap.New(1), members, shardmap.Policy{Services: services})
	for _, member := range members {
		if got := m.ShardCount(member.ID); got != 4 {
			t.Errorf("%s owns %d of 20 services with one shard, want 4", member.ID, got)
		}
	}
}

func TestInvalidServicesAreDropped(t *testing.T) {
	members := nodes(2)
	valid := everyNodeRuns(4, 4, members)
	for name, invalid := range map[string]shardmap.Service{
		"empty":              everyNodeRuns(0, 0, members),
		"negative":           everyNodeRuns(0, -1, members),
		"overlaps":           everyNodeRuns(7, 4, members),
		"ends beyond limit":  everyNodeRuns(shardmap.MaxShards-1, 2, members),
		"begins at limit":    everyNodeRuns(shardmap.MaxShards, 1, members),
		"longer than an int": everyNodeRuns(8, 1<<62, members),
	} {
		m := shardmap.Assign(shardmap.New(4), members, shardmap.Policy{Services: []shardmap.Service{invalid, valid}})
		if m.Len() != 8 || m.OrphanCount() != 4 {
			t.Errorf("%s: %d shards, %d orphans, want 8 and 4", name, m.Len(), m.OrphanCount())
		}
	}
}

// A member that keeps shards of two services for now, and runs neither any more, has the instances of both.
func TestOwnerKeepsDeferredShardsOfSeveralServices(t *testing.T) {
	first, second := everyNodeRuns(0, 4, nil), everyNodeRuns(4, 4, nil)
	first.Instances["n000"], second.Instances["n000"] = instanceSet(0), instanceSet(1)
	owner := shardmap.Member{ID: "n000", Weight: 3, Instances: instanceSet(0, 1)}
	m := assignWithEpoch(shardmap.New(8), []shardmap.Member{owner}, shardmap.Policy{Services: []shardmap.Service{first, second}})
	other := shardmap.Member{ID: "n001", Weight: 1, Instances: instanceSet(0, 1)}
	first.Instances = map[shardmap.NodeID]shardmap.InstanceSet{"n001": instanceSet(0)}
	second.Instances = map[shardmap.NodeID]shardmap.InstanceSet{"n001": instanceSet(1)}
	next := shardmap.Assign(m, []shardmap.Member{other}, shardmap.Policy{
		Services: []shardmap.Service{first, second}, DefersMoves: map[shardmap.NodeID]bool{"n000": true}, IdleShards: map[shardmap.Shard]bool{0: true, 4: true},
	})
	if got := next.Members(); len(got) != 2 || got[0] != owner {
		t.Fatalf("members %v, want %v to keep its shards", got, owner)
	}
	for shard := range shardmap.Shard(8) {
		want := shardmap.NodeID("n000")
		if shard%4 == 0 {
			want = "n001"
		}
		if got := next.Owner(shard); got != want || next.Instance(shard) != shardmap.Instance(shard/4) {
			t.Errorf("shard %d is at instance %d of %q, want %q", shard, next.Instance(shard), got, want)
		}
	}
}

func TestReturningNodeGetsItsShardsOfEachServiceBack(t *testing.T) {
	members := nodes(2)
	p := shardmap.Policy{Services: []shardmap.Service{everyNodeRuns(0, 8, members), everyNodeRuns(8, 8, members)}}
	m := assignWithEpoch(shardmap.New(16), members[1:], p)
	p.PreviousOwners = make([]shardmap.NodeID, 16)
	returning := []shardmap.Shard{0, 1, 2, 7, 8, 13, 14, 15}
	for _, shard := range returning {
		p.PreviousOwners[shard] = members[0].ID
	}
	next := shardmap.Assign(m, members, p)
	if got := slices.Collect(next.Shards(members[0].ID)); !slices.Equal(got, returning) {
		t.Errorf("%s gets the shards %v, want its former shards %v", members[0].ID, got, returning)
	}
}

func TestAssignedShardBelongsToItsService(t *testing.T) {
	members := nodes(2)
	services := []shardmap.Service{everyNodeRuns(0, 4, members), everyNodeRuns(4, 4, members)}
	p := shardmap.Policy{Services: services, Emptied: map[shardmap.NodeID]bool{"n000": true}, Assigned: map[shardmap.Shard]shardmap.NodeID{6: "n000"}}
	m := shardmap.Assign(shardmap.New(8), members, p)
	if got := slices.Collect(m.Shards("n000")); !slices.Equal(got, []shardmap.Shard{6}) {
		t.Errorf("the emptied node owns the shards %v, want 6 only", got)
	}
}

func TestBarredShardsAreThoseOfTheService(t *testing.T) {
	members := nodes(2)
	services := []shardmap.Service{everyNodeRuns(0, 4, members), everyNodeRuns(4, 4, members)}
	var barred shardmap.ShardSet
	for shard := range shardmap.Shard(4) {
		barred.Add(4 + shard)
	}
	m := shardmap.Assign(shardmap.New(8), members, shardmap.Policy{Services: services, Barred: map[shardmap.NodeID]shardmap.ShardSet{"n000": barred}})
	first, second := m.Part(services[0]), m.Part(services[1])
	if first.ShardCount("n000") != 2 || second.ShardCount("n000") != 0 || second.ShardCount("n001") != 4 {
		t.Errorf("n000 owns %d and %d shards, want 2 and none of the service from which it is barred", first.ShardCount("n000"), second.ShardCount("n000"))
	}
}

func BenchmarkAssignServices(b *testing.B) {
	for _, count := range []int{1, 3, 64} {
		b.Run(fmt.Sprintf("services=%d", count), func(b *testing.B) {
			members := nodes(20)
			var services []shardmap.Service
			size := 4096 / count
			for i := range count {
				services = append(services, everyNodeRuns(shardmap.Shard(i*size), size, members))
			}
			p := shardmap.Policy{Services: services}
			m := assignWithEpoch(shardmap.New(1), members, p)
			for b.Loop() {
				shardmap.Assign(m, members[1:], p)
			}
		})
	}
}

// FuzzServices places services with any ranges on random members under a random policy.
func FuzzServices(f *testing.F) {
	f.Add(uint64(1), []byte{0, 4, 7, 4, 4, 3})
	f.Add(uint64(2), []byte{3, 1, 1, 0, 0, 7, 200, 200, 1})
	f.Fuzz(func(t *testing.T, seed uint64, ranges []byte) {
		r := rand.New(rand.NewPCG(seed, 47))
		var services []shardmap.Service
		for ; len(ranges) >= 3 && len(services) < 16; ranges = ranges[3:] {
			service := everyNodeRuns(shardmap.Shard(ranges[0]), int(int8(ranges[1])), nil)
			for i, member := range nodes(6) {
				if ranges[2]>>i&1 == 1 {
					service.Instances[member.ID] = shardmap.InstanceSet(r.IntN(8)).Normalized()
				}
			}
			services = append(services, service)
		}
		m := shardmap.New(1 + r.IntN(400))
		for range 3 {
			members, p := withInstances(r, randomMembers(r, 6)), randomPolicy(r, 6, m.Len())
			p.Services = services
			got := shardmap.Assign(m, members, p)
			checkConsistent(t, got)
			if got.Len() < m.Len() {
				t.Fatalf("the map became shorter: %d shards after %d", got.Len(), m.Len())
			}
			for shard := range shardmap.Shard(got.Len()) {
				if len(services) > 0 && !hasService(services, shard) && got.Owner(shard) != "" {
					t.Fatalf("shard %d of no service belongs to %q", shard, got.Owner(shard))
				}
			}
			m = got.WithEpoch(m, m.Epoch()+1)
			roundTrip(t, m)
		}
	})
}
