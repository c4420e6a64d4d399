package shardmap

import (
	"cmp"
	"slices"
)

// Service is a part of the shards that only some members may own: those whose apps run the service. Its
// shards are the range from First to End.
type Service struct {
	First Shard
	Count int // number of shards, at least 1
	// Instances contains the app instances that run the service, by the id of their node. A node that runs
	// none is missing.
	Instances map[NodeID]InstanceSet
	// Replicas is the number of standbys of each shard, from 0 to MaxReplicas.
	Replicas int
}

// End returns the first shard after the range of the service.
func (sv Service) End() int { return int(sv.First) + sv.Count }

// Contains reports whether the shard is in the range of the service.
func (sv Service) Contains(shard Shard) bool { return shard >= sv.First && int(shard) < sv.End() }

// assignServices places the shards of each service on the members that run it, in the same way as
// assignAll places all shards. So the shards are even within each service, each service moves the fewest
// shards, and no service influences which shards of another service move. Among equally good
// choices, a member with fewer shards of other services gets more shards.
//
// Members that restart in place keep their shards of all services. The shards of a service without a
// member that may own them are orphaned, and so are all shards outside the ranges.
func assignServices(prev *Map, members []Member, policy Policy) *Map {
	services := normalizeServices(policy.Services)
	policies := policy.splitByService(services)
	length := prev.Len()
	for _, service := range services {
		length = max(length, service.End())
	}
	counts := prev.countByService(services)
	parts := make([]*Map, len(services))
	for i, service := range services {
		policies[i].ownedElsewhere = ownedElsewhere(counts, i)
		part, candidates := prev.part(service), service.candidates(members, policy.Restarting)
		undeferred := policies[i]
		undeferred.DefersMoves = nil
		parts[i] = assignAll(part, candidates, undeferred)
		// Deferred moves of one service must not influence where shards of another one move.
		counts[i] = parts[i].countByOwner()
		if len(policy.DefersMoves) > 0 {
			parts[i] = assignAll(part, candidates, policies[i])
		}
	}
	next := New(length)
	next.epoch, next.members = prev.epoch, normalize(policy.eligible(members))
	next.addMembersOf(parts)
	next.instances = make([]Instance, length)
	for i, part := range parts {
		next.setPart(int(services[i].First), part)
	}
	next.instances = normalizeInstances(next.instances)
	next.updateCounts()
	return next
}

// normalizeServices returns the services sorted by their ranges. It drops a service whose range is
// empty, too long, or overlaps with an earlier one. Like normalize, it never fails.
func normalizeServices(services []Service) []Service {
	sorted := slices.Clone(services)
	slices.SortStableFunc(sorted, func(a, b Service) int { return cmp.Compare(a.First, b.First) })
	end := 0
	return slices.DeleteFunc(sorted, func(service Service) bool {
		if service.Count < 1 || service.Count > MaxShards || service.End() > MaxShards || int(service.First) < end {
			return true
		}
		end = service.End()
		return false
	})
}

// serviceOf returns the index of the service that has the shard in its range, or -1. The services must be
// normalized.
func serviceOf(services []Service, shard Shard) int {
	i, found := slices.BinarySearchFunc(services, shard, func(service Service, shard Shard) int {
		return cmp.Compare(service.First, shard)
	})
	if !found {
		i--
	}
	if i < 0 || int(shard) >= services[i].End() {
		return -1
	}
	return i
}

// candidates returns the members that run the service, each with those of its instances that run it.
// restarting members are included, because they keep their shards.
func (sv Service) candidates(members []Member, restarting map[NodeID]bool) []Member {
	candidates := make([]Member, 0, len(members))
	for _, member := range members {
		if restarting[member.ID] {
			candidates = append(candidates, member)
			continue
		}
		running, runs := sv.Instances[member.ID]
		common, isEmpty := member.Instances.Without(func(instance Instance) bool { return !running.Has(instance) })
		if runs && !isEmpty {
			member.Instances = common
			candidates = append(candidates, member)
		}
	}
	return candidates
}

// part returns the map of the shards of the service, numbered from zero. Shards that m does not have are
// orphaned.
func (m *Map) part(service Service) *Map {
	part := New(service.Count)
	part.epoch, part.members = m.epoch, m.members
	first, end := min(int(service.First), m.Len()), min(service.End(), m.Len())
	copy(part.owners, m.owners[first:end])
	copy(part.since, m.since[first:end])
	if m.instances != nil {
		part.instances = make([]Instance, service.Count)
		copy(part.instances, m.instances[first:end])
	}
	part.updateCounts()
	return part
}

// setPart sets the shards from first on to those of part, whose owners must be members of m.
func (m *Map) setPart(first int, part *Map) {
	toNext := part.translationTo(m.members)
	for shard, owner := range part.owners {
		if owner = toNext.newIndex(owner); owner != noOwner {
			m.owners[first+shard], m.instances[first+shard], m.since[first+shard] = owner, part.instanceOf(shard), part.since[shard]
		}
	}
}

// addMembersOf adds the members of the parts that are not members of m: owners that keep shards for
// now. Such a member has the instances that it has in any part.
func (m *Map) addMembersOf(parts []*Map) {
	all, position := slices.Clone(m.members), map[NodeID]int{}
	for _, part := range parts {
		for _, member := range part.members {
			if m.IsMember(member.ID) {
				continue
			}
			i, isAdded := position[member.ID]
			if !isAdded {
				position[member.ID] = len(all)
				all = append(all, member)
				continue
			}
			for _, instance := range member.Instances.All() {
				all[i].Instances = all[i].Instances.With(instance)
			}
		}
	}
	m.members = normalize(all)
}

// countByOwner returns the number of shards of each owner.
func (m *Map) countByOwner() map[NodeID]int {
	counts := make(map[NodeID]int, len(m.members))
	for i, member := range m.members {
		counts[member.ID] = m.counts[i]
	}
	return counts
}

// countByService returns the number of shards of each owner, by service.
func (m *Map) countByService(services []Service) []map[NodeID]int {
	counts := make([]map[NodeID]int, len(services))
	for i, service := range services {
		counts[i] = m.part(service).countByOwner()
	}
	return counts
}

// ownedElsewhere returns the number of shards of each owner in all services except one.
func ownedElsewhere(counts []map[NodeID]int, except int) map[NodeID]int {
	total := map[NodeID]int{}
	for i, owned := range counts {
		if i == except {
			continue
		}
		for id, count := range owned {
			total[id] += count
		}
	}
	return total
}

// splitByService returns the policy of each service, with shards numbered from zero within the service.
func (p Policy) splitByService(services []Service) []Policy {
	policies := make([]Policy, len(services))
	for i, service := range services {
		split := p
		split.Services, split.Assigned, split.IdleShards, split.KeptShards, split.Pins, split.PinFallbacks = nil, nil, nil, nil, nil, nil
		split.Replicas, split.isPartOfServices = service.Replicas, true
		split.PreviousOwners = ownersIn(p.PreviousOwners, service)
		split.Barred = make(map[NodeID]ShardSet, len(p.Barred))
		for id, set := range p.Barred {
			if barred := set.part(service); len(barred) > 0 {
				split.Barred[id] = barred
			}
		}
		policies[i] = split
	}
	splitShards(services, p.Assigned, func(i int) *map[Shard]NodeID { return &policies[i].Assigned })
	splitShards(services, p.IdleShards, func(i int) *map[Shard]bool { return &policies[i].IdleShards })
	splitShards(services, p.KeptShards, func(i int) *map[Shard]bool { return &policies[i].KeptShards })
	splitShards(services, p.Pins, func(i int) *map[Shard]Pin { return &policies[i].Pins })
	splitShards(services, p.PinFallbacks, func(i int) *map[Shard][]NodeID { return &policies[i].PinFallbacks })
	return policies
}

// splitShards adds each value of all to the Go map that target returns for the service of its shard,
// under the number of the shard within the service.
func splitShards[V any](services []Service, all map[Shard]V, target func(service int) *map[Shard]V) {
	for shard, value := range all {
		i := serviceOf(services, shard)
		if i < 0 {
			continue
		}
		split := target(i)
		if *split == nil {
			*split = map[Shard]V{}
		}
		(*split)[shard-services[i].First] = value
	}
}

// ownersIn returns the names of the shards of the service. It returns nil if no names are known.
func ownersIn(names []NodeID, service Service) []NodeID {
	if len(names) == 0 {
		return nil
	}
	part := make([]NodeID, service.Count)
	copy(part, names[min(int(service.First), len(names)):min(service.End(), len(names))])
	return part
}

// part returns the shards of the service that are in the set, numbered from zero. It returns nil if there
// are none.
func (set ShardSet) part(service Service) ShardSet {
	var part ShardSet
	for shard := service.First; int(shard) < min(service.End(), len(set)*64); shard++ {
		if set.Has(shard) {
			part.Add(shard - service.First)
		}
	}
	return part
}
