package shardmap

import "slices"

// deferBusy gives each shard of p.Kept back to its owner in prev, and each shard that is not
// in p.Idle, if its owner is in p.Staged. An owner that is no member of m becomes one again.
func (m *Map) deferBusy(prev *Map, p Policy) {
	stays := prev.translate(m.members)
	var deferred []int
	members := slices.Clone(m.members)
	missing := make([]bool, len(prev.members))
	for s, o := range prev.owners {
		if o == none || !p.Kept[Shard(s)] && (!p.Staged[prev.members[o].ID] || p.Idle[Shard(s)]) {
			continue
		}
		switch {
		case stays.of(o) == none:
			if !missing[o] {
				missing[o] = true
				members = append(members, prev.members[o])
			}
		case stays.of(o) == m.owners[s]:
			continue
		}
		deferred = append(deferred, s)
	}
	if len(members) > len(m.members) {
		members = normal(members)
		to := m.translate(members)
		for s, o := range m.owners {
			m.owners[s] = to.of(o)
		}
		m.members = members
		stays = prev.translate(members)
	}
	for _, s := range deferred {
		if o := stays.of(prev.owners[s]); o != none { // none: beyond MaxMembers
			m.owners[s] = o
		}
	}
}
