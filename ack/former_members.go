package ack

import (
	"cmp"
	"maps"
	"slices"

	"shardway/shardmap"
)

// maxDeparted bounds the former members that a State names.
const maxFormerMembers = 16

// Departed returns the last nodes, up to 16, that are in no map any more, ascending. A node that
// left has no drop in force (Dropped); any other failed. Nodes that joined later know of both by
// the log alone.
func (s *State) FormerMembers() (nodes []shardmap.NodeID) {
	for _, id := range slices.Sorted(maps.Keys(s.formerMembers)) {
		if s.formerMembers[id] > 0 {
			nodes = append(nodes, id)
		}
	}
	return nodes
}

// noteDeparted notes which nodes the map that is being committed leaves out, or has again.
func (s *State) recordFormerMembers() {
	next := maps.Clone(s.formerMembers)
	for _, m := range s.committed.Members() {
		if _, removed := next[m.ID]; !removed && !s.last.Has(m.ID) {
			setKey(&next, m.ID, s.last.Epoch())
		} else {
			delete(next, m.ID)
		}
	}
	for _, m := range s.last.Members() {
		delete(next, m.ID)
	}
	if len(next) > maxFormerMembers { // the oldest go first, the same on every node
		ids := slices.SortedFunc(maps.Keys(next), func(a, b shardmap.NodeID) int {
			return cmp.Or(cmp.Compare(next[a], next[b]), cmp.Compare(a, b))
		})
		for _, id := range ids[:len(ids)-maxFormerMembers] {
			delete(next, id)
		}
	}
	s.formerMembers = next
}

// forgetDeparted forgets a node that the cluster has removed. The map that routes may still have
// that node: epoch 0 then means that the next map without the node does not name it.
func (s *State) forgetFormerMember(node shardmap.NodeID) {
	s.formerMembers = maps.Clone(s.formerMembers)
	if delete(s.formerMembers, node); s.committed.Has(node) {
		setKey(&s.formerMembers, node, 0)
	}
}

// departed writes former members in order.
func (w *writer) formerMembers(all map[shardmap.NodeID]shardmap.Epoch) {
	w.uint(uint64(len(all)))
	for _, id := range slices.Sorted(maps.Keys(all)) {
		w.text(string(id))
		w.uint(uint64(all[id]))
	}
}

// departed reads what the writer wrote. Those that m, the map that routes, has are removed.
func (r *reader) formerMembers(m *shardmap.Map) map[shardmap.NodeID]shardmap.Epoch {
	all := readSorted(r, r.node, func() shardmap.Epoch { return shardmap.Epoch(r.uint(0, uint64(m.Epoch()))) })
	former := 0
	for id, since := range all {
		if m.Has(id) != (since == 0) {
			r.fail("a former member that the map has")
			return nil
		}
		if since > 0 {
			former++
		}
	}
	if former > maxFormerMembers {
		r.fail("too many former members")
		return nil
	}
	return all
}
