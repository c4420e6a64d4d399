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
	formerMembers := maps.Clone(s.formerMembers)
	for _, member := range s.committed.Members() {
		if _, removed := formerMembers[member.ID]; !removed && !s.proposed.IsMember(member.ID) {
			setKey(&formerMembers, member.ID, s.proposed.Epoch())
		} else {
			delete(formerMembers, member.ID)
		}
	}
	for _, member := range s.proposed.Members() {
		delete(formerMembers, member.ID)
	}
	if len(formerMembers) > maxFormerMembers { // remove the oldest, in the same order on every node
		ids := slices.SortedFunc(maps.Keys(formerMembers), func(a, b shardmap.NodeID) int {
			return cmp.Or(cmp.Compare(formerMembers[a], formerMembers[b]), cmp.Compare(a, b))
		})
		for _, id := range ids[:len(ids)-maxFormerMembers] {
			delete(formerMembers, id)
		}
	}
	s.formerMembers = formerMembers
}

// forgetFormerMember forgets a node that an operator has removed. If the committed map still
// contains the node, epoch 0 records that the next map without it must not list it.
func (s *State) forgetFormerMember(node shardmap.NodeID) {
	s.formerMembers = maps.Clone(s.formerMembers)
	if delete(s.formerMembers, node); s.committed.IsMember(node) {
		setKey(&s.formerMembers, node, 0)
	}
}

// formerMembers writes the previous members in order.
func (w *writer) formerMembers(members map[shardmap.NodeID]shardmap.Epoch) {
	w.uint(uint64(len(members)))
	for _, id := range slices.Sorted(maps.Keys(members)) {
		w.text(string(id))
		w.uint(uint64(members[id]))
	}
}

// formerMembers reads the output of writer.formerMembers. Members of the committed map must have
// epoch zero, others must not.
func (r *reader) formerMembers(committed *shardmap.Map) map[shardmap.NodeID]shardmap.Epoch {
	members := readSorted(r, r.node, func() shardmap.Epoch { return shardmap.Epoch(r.uint(0, uint64(committed.Epoch()))) })
	former := 0
	for id, since := range members {
		if committed.IsMember(id) != (since == 0) {
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
	return members
}
