package ack

import (
	"cmp"
	"maps"
	"slices"

	"shardway/shardmap"
)

// maxFormerMembers bounds the previous members in a State.
const maxFormerMembers = 16

// FormerMembers returns the last nodes, up to 16, that have left the map, ascending. A node
// that left as planned has no drop in force (see Dropped). Any other previous member failed. The
// log must contain both, because nodes that joined later have no other source.
func (s *State) FormerMembers() (nodes []shardmap.NodeID) {
	for _, id := range slices.Sorted(maps.Keys(s.formerMembers)) {
		if s.formerMembers[id] > 0 {
			nodes = append(nodes, id)
		}
	}
	return nodes
}

// recordFormerMembers records which nodes the map being committed excludes, or contains again.
func (s *State) recordFormerMembers() {
	next := maps.Clone(s.formerMembers)
	for _, m := range s.committed.Members() {
		if _, removed := next[m.ID]; !removed && !s.proposed.Has(m.ID) {
			setKey(&next, m.ID, s.proposed.Epoch())
		} else {
			delete(next, m.ID)
		}
	}
	for _, m := range s.proposed.Members() {
		delete(next, m.ID)
	}
	if len(next) > maxFormerMembers { // remove the oldest, in the same order on every node
		ids := slices.SortedFunc(maps.Keys(next), func(a, b shardmap.NodeID) int {
			return cmp.Or(cmp.Compare(next[a], next[b]), cmp.Compare(a, b))
		})
		for _, id := range ids[:len(ids)-maxFormerMembers] {
			delete(next, id)
		}
	}
	s.formerMembers = next
}

// forgetFormerMember forgets a node that an operator has removed. If the committed map still
// contains the node, epoch 0 records that the next map without it must not list it.
func (s *State) forgetFormerMember(node shardmap.NodeID) {
	s.formerMembers = maps.Clone(s.formerMembers)
	if delete(s.formerMembers, node); s.committed.Has(node) {
		setKey(&s.formerMembers, node, 0)
	}
}

// formerMembers writes the previous members in order.
func (w *writer) formerMembers(all map[shardmap.NodeID]shardmap.Epoch) {
	w.uint(uint64(len(all)))
	for _, id := range slices.Sorted(maps.Keys(all)) {
		w.text(string(id))
		w.uint(uint64(all[id]))
	}
}

// formerMembers reads the output of writer.formerMembers. Members of the committed map m must
// have epoch zero, others must not.
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
