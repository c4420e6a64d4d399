package ack

import (
	"slices"

	"shardway/shardmap"
)

// PreviousOwner returns the owner of the shard before its present owner, or the last owner if it
// has none; empty if there was none. An owner that returned the shard without having acquired
// it is skipped.
func (s *State) PreviousOwner(shard shardmap.Shard) shardmap.NodeID {
	if s.previousOwners == nil {
		return ""
	}
	return s.previousOwners[shard]
}

// PreviousOwners returns the result of PreviousOwner for every shard; nil means that no shard has
// had another owner. It must not be modified.
func (s *State) PreviousOwners() []shardmap.NodeID { return s.previousOwners }

// recordPreviousOwners records the previous owners of the shards that move with the map being
// committed.
func (s *State) recordPreviousOwners(released []Released) {
	moves := shardmap.Diff(s.committed, s.proposed)
	if len(moves) == 0 {
		return
	}
	s.previousOwners = slices.Clone(s.previousOwners)
	back := map[shardmap.Shard]bool{}
	for _, r := range released {
		back[r.Shard] = r.From != ""
	}
	for _, m := range moves {
		if m.From == "" || back[m.Shard] {
			continue // the previous owner remains the one that last held the shard
		}
		if s.previousOwners == nil {
			s.previousOwners = make([]shardmap.NodeID, s.committed.Len())
		}
		s.previousOwners[m.Shard] = m.From
	}
}

// previousOwners writes the previous owners by shard: the names in order, and then runs of shards
// with the same name, as an index that starts at 1. 0 means none.
func (w *writer) previousOwners(p []shardmap.NodeID) {
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

// previousOwners reads the output of writer.previousOwners for the given number of shards.
func (r *reader) previousOwners(shards int) []shardmap.NodeID {
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
			r.fail("two runs of one name")
		}
		if r.err != nil {
			return nil
		}
		p = append(p, slices.Repeat(names[at:at+1], int(run))...)
		last, used[at] = at, true
	}
	delete(used, 0)
	if len(used) != len(names)-1 {
		r.fail("unused name")
	}
	return p
}
