package ack

import (
	"slices"

	"shardway/shardmap"
)

// OwnerBefore returns who owned the shard before its present owner did, or, if nobody
// owns it, who did last; empty: nobody ever did. An owner that gave it back as it got it is
// passed over.
func (s *State) OwnerBefore(shard shardmap.Shard) shardmap.NodeID {
	if s.previous == nil {
		return ""
	}
	return s.previous[shard]
}

// succeed notes whom the owners of the map that is committed follow.
func (s *State) recordPreviousOwners(released []Released) {
	moves := shardmap.Diff(s.committed, s.last)
	if len(moves) == 0 {
		return
	}
	s.previous = slices.Clone(s.previous)
	back := map[shardmap.Shard]bool{}
	for _, r := range released {
		back[r.Shard] = r.From != ""
	}
	for _, m := range moves {
		if m.From == "" || back[m.Shard] {
			continue // it still follows who owned the shard last
		}
		if s.previous == nil {
			s.previous = make([]shardmap.NodeID, s.committed.Len())
		}
		s.previous[m.Shard] = m.From
	}
}

// previous writes who owned what before: the names in order, and runs of shards
// that share one, the first name being 1 and nobody 0.
func (w *writer) previous(p []shardmap.NodeID) {
	names := slices.Clone(p)
	slices.Sort(names)
	names = slices.Compact(names)
	if len(names) > 0 && names[0] == "" {
		names = names[1:]
	}
	w.uint(uint64(len(names)))
	for _, n := range names {
		w.text(string(n))
	}
	for i := 0; i < len(p); {
		run := 1
		for i+run < len(p) && p[i+run] == p[i] {
			run++
		}
		at, _ := slices.BinarySearch(names, p[i])
		if p[i] != "" {
			at++
		}
		w.uint(uint64(at))
		w.uint(uint64(run))
		i += run
	}
}

// previous reads what the writer wrote, of so many shards.
func (r *reader) previous(shards int) []shardmap.NodeID {
	n := r.uint(0, uint64(shards))
	if n == 0 {
		return nil
	}
	names := []shardmap.NodeID{""}
	for range n {
		name := shardmap.NodeID(r.text(1, maxText))
		if r.err == nil && name <= names[len(names)-1] {
			r.fail("names out of order")
		}
		if r.err != nil {
			return nil
		}
		names = append(names, name)
	}
	var p []shardmap.NodeID
	used := map[uint64]bool{}
	for last := uint64(len(names)); len(p) < shards; {
		at, run := r.uint(0, n), r.uint(1, uint64(shards-len(p)))
		if r.err == nil && at == last {
			r.fail("one run in two")
		}
		if r.err != nil {
			return nil
		}
		p = append(p, slices.Repeat(names[at:at+1], int(run))...)
		last, used[at] = at, true
	}
	delete(used, 0)
	if len(used) != len(names)-1 {
		r.fail("a name that is nobody's")
	}
	return p
}
