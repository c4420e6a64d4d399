package shardmap

import "slices"

// deferMoves undoes moves that the policy defers. It returns to its owner in prev each shard in
// p.KeptShards, and each shard of an owner in p.DefersMoves that is not in p.IdleShards. If that
// owner is not a member of m, it becomes a member again.
func (m *Map) deferMoves(prev *Map, p Policy) {
	converted := prev.translationTo(m.members)
	var deferred []int
	members := slices.Clone(m.members)
	missing := make([]bool, len(prev.members))
	for shard, owner := range prev.owners {
		if owner == noOwner || !p.KeptShards[Shard(shard)] && (!p.DefersMoves[prev.members[owner].ID] || p.IdleShards[Shard(shard)]) {
			continue
		}
		switch {
		case converted.newIndex(owner) == noOwner:
			if !missing[owner] {
				missing[owner] = true
				members = append(members, prev.members[owner])
			}
		case converted.newIndex(owner) == m.owners[shard]:
			continue
		}
		deferred = append(deferred, shard)
	}
	if len(members) > len(m.members) {
		members = normalize(members)
		to := m.translationTo(members)
		for shard, owner := range m.owners {
			m.owners[shard] = to.newIndex(owner)
		}
		m.members = members
		converted = prev.translationTo(members)
	}
	for _, shard := range deferred {
		if owner := converted.newIndex(prev.owners[shard]); owner != noOwner { // not a member if MaxMembers is exceeded
			m.owners[shard] = owner
		}
	}
}
