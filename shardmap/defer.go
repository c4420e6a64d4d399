package shardmap

import "slices"

// deferMoves undoes moves that the policy defers. It returns to its owner in prev each shard in
// p.KeptShards, and each shard of an owner in p.DefersMoves that is not in p.IdleShards. If that
// owner is not a member of m, it becomes a member again. A shard of a failed instance moves, because
// that instance answers no request. healthy contains the other instances of each candidate.
func (m *Map) deferMoves(prev *Map, p Policy, healthy map[NodeID]InstanceSet) {
	var deferred []int
	for shard, owner := range prev.owners {
		if owner == noOwner || !p.defersMove(Shard(shard), prev.members[owner].ID) {
			continue
		}
		instances, isCandidate := healthy[prev.members[owner].ID]
		hasFailed := isCandidate && !instances.Has(prev.instanceOf(shard))
		if !hasFailed {
			deferred = append(deferred, shard)
		}
	}
	m.restoreOwners(prev, deferred)
	converted := prev.translationTo(m.members)
	for _, shard := range deferred {
		owner := converted.newIndex(prev.owners[shard])
		if owner != noOwner { // not a member if MaxMembers is exceeded
			m.owners[shard] = owner
		}
	}
}

// defersMove reports whether the shard stays with its owner for now.
func (p *Policy) defersMove(shard Shard, owner NodeID) bool {
	return p.KeptShards[shard] || p.DefersMoves[owner] && !p.IdleShards[shard]
}

// restoreOwners adds to m the owners in prev of the given shards that are not members of m. Such a
// member has only the instances of these shards, because the others get none.
func (m *Map) restoreOwners(prev *Map, shards []int) {
	converted := prev.translationTo(m.members)
	members := slices.Clone(m.members)
	restored := make([]int, len(prev.members)) // index in members plus one; zero means not restored
	for _, shard := range shards {
		owner, instance := prev.owners[shard], prev.instanceOf(shard)
		switch {
		case converted.newIndex(owner) != noOwner:
		case restored[owner] > 0:
			member := &members[restored[owner]-1]
			member.Instances = member.Instances.With(instance)
		default:
			member := prev.members[owner]
			member.Instances = InstanceSet(1 << instance).Normalized()
			members = append(members, member)
			restored[owner] = len(members)
		}
	}
	if len(members) == len(m.members) {
		return
	}
	members = normalize(members)
	toNew := m.translationTo(members)
	for shard, owner := range m.owners {
		m.owners[shard] = toNew.newIndex(owner)
	}
	m.members = members
}
