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
	for s, o := range prev.owners {
		if o == noOwner || !p.KeptShards[Shard(s)] && (!p.DefersMoves[prev.members[o].ID] || p.IdleShards[Shard(s)]) {
			continue
		}
		switch {
		case converted.newIndex(o) == noOwner:
			if !missing[o] {
				missing[o] = true
				members = append(members, prev.members[o])
			}
		case converted.newIndex(o) == m.owners[s]:
			continue
		}
		deferred = append(deferred, s)
	}
	if len(members) > len(m.members) {
		members = normalize(members)
		to := m.translationTo(members)
		for s, o := range m.owners {
			m.owners[s] = to.newIndex(o)
		}
		m.members = members
		converted = prev.translationTo(members)
	}
	for _, s := range deferred {
		if o := converted.newIndex(prev.owners[s]); o != noOwner { // not a member if MaxMembers is exceeded
			m.owners[s] = o
		}
	}
}
