package ack

import (
	"cmp"
	"maps"
	"slices"

	"shardway/shardmap"
)

// maxFormerMembers bounds the previous members in a State.
const maxFormerMembers = 16

// formerMembers contains previous members, and the first map without them. Epoch 0 marks a member of the committed
// map that an operator has removed.
type formerMembers map[shardmap.NodeID]shardmap.Epoch

// FormerMembers returns the last nodes, up to 16, that have left the map, ascending. A node that left as planned
// has no drop in force (see IsDropped). Any other previous member failed. The log must contain both, because nodes
// that joined later have no other source of them.
func (s *State) FormerMembers() (nodes []shardmap.NodeID) {
	for _, id := range slices.Sorted(maps.Keys(s.formerMembers)) {
		if s.formerMembers[id] > 0 {
			nodes = append(nodes, id)
		}
	}
	return nodes
}

// withCommit returns a copy of fm after the commit of a proposal: without the members
// of the proposal, and with the members that it excludes.
func (fm formerMembers) withCommit(committed, proposed *shardmap.Map) formerMembers {
	former := maps.Clone(fm)
	for _, member := range committed.Members() {
		_, wasRemoved := former[member.ID] // by an operator, see withRemoval
		if !wasRemoved && !proposed.IsMember(member.ID) {
			setKey(&former, member.ID, proposed.Epoch())
		} else {
			delete(former, member.ID)
		}
	}
	for _, member := range proposed.Members() {
		delete(former, member.ID)
	}
	former.limit()
	return former
}

// limit removes the oldest entries beyond maxFormerMembers, in the same order on every node.
func (fm formerMembers) limit() {
	if len(fm) <= maxFormerMembers {
		return
	}
	ids := slices.SortedFunc(maps.Keys(fm), func(a, b shardmap.NodeID) int {
		return cmp.Or(cmp.Compare(fm[a], fm[b]), cmp.Compare(a, b))
	})
	for _, id := range ids[:len(ids)-maxFormerMembers] {
		delete(fm, id)
	}
}

// withRemoval returns a copy of fm without a node that an operator has removed. If
// the committed map still contains the node, epoch 0 records that the next map without it must not
// list it.
func (fm formerMembers) withRemoval(node shardmap.NodeID, committed *shardmap.Map) formerMembers {
	former := maps.Clone(fm)
	delete(former, node)
	if committed.IsMember(node) {
		setKey(&former, node, 0)
	}
	return former
}

// writeFormerMembers writes the previous members in order.
func (w *writer) writeFormerMembers(members formerMembers) {
	w.uint(uint64(len(members)))
	for _, id := range slices.Sorted(maps.Keys(members)) {
		w.text(string(id))
		w.uint(uint64(members[id]))
	}
}

// readFormerMembers decodes the output of writer.writeFormerMembers. Members of the committed map must have
// epoch zero, others must not.
func (r *reader) readFormerMembers(committed *shardmap.Map) formerMembers {
	firstMapWithout := func() shardmap.Epoch { return shardmap.Epoch(r.uint(0, uint64(committed.Epoch()))) }
	members := readSorted(r, r.readNode, firstMapWithout)
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
