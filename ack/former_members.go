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
// that left as planned has no drop in force (see IsDropped). Any other previous member failed. The
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
	former := maps.Clone(s.formerMembers)
	for _, member := range s.committed.Members() {
		_, wasRemoved := former[member.ID] // by an operator, see forgetFormerMember
		if !wasRemoved && !s.proposed.IsMember(member.ID) {
			setKey(&former, member.ID, s.proposed.Epoch())
		} else {
			delete(former, member.ID)
		}
	}
	for _, member := range s.proposed.Members() {
		delete(former, member.ID)
	}
	limitFormerMembers(former)
	s.formerMembers = former
}

// limitFormerMembers removes the oldest entries beyond maxFormerMembers, in the same order on every
// node.
func limitFormerMembers(former map[shardmap.NodeID]shardmap.Epoch) {
	if len(former) <= maxFormerMembers {
		return
	}
	ids := slices.SortedFunc(maps.Keys(former), func(a, b shardmap.NodeID) int {
		return cmp.Or(cmp.Compare(former[a], former[b]), cmp.Compare(a, b))
	})
	for _, id := range ids[:len(ids)-maxFormerMembers] {
		delete(former, id)
	}
}

// forgetFormerMember forgets a node that an operator has removed. If the committed map still
// contains the node, epoch 0 records that the next map without it must not list it.
func (s *State) forgetFormerMember(node shardmap.NodeID) {
	s.formerMembers = maps.Clone(s.formerMembers)
	delete(s.formerMembers, node)
	if s.committed.IsMember(node) {
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
	firstMapWithout := func() shardmap.Epoch { return shardmap.Epoch(r.uint(0, uint64(committed.Epoch()))) }
	members := readSorted(r, r.node, firstMapWithout)
	former := 0
	for id, epoch := range members {
		isForgotten := epoch == 0
		if committed.IsMember(id) != isForgotten {
			r.fail("a former member that the map has")
			return nil
		}
		if !isForgotten {
			former++
		}
	}
	if former > maxFormerMembers {
		r.fail("too many former members")
		return nil
	}
	return members
}
