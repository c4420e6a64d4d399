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
	returned := map[shardmap.Shard]bool{}
	for _, release := range released {
		returned[release.Shard] = release.From != ""
	}
	for _, move := range moves {
		if move.From == "" || returned[move.Shard] {
			continue // the previous owner remains the one that last held the shard
		}
		if s.previousOwners == nil {
			s.previousOwners = make([]shardmap.NodeID, s.committed.Len())
		}
		s.previousOwners[move.Shard] = move.From
	}
}

// previousOwners writes the previous owners by shard: the names in order, and then runs of shards
// with the same name, as an index that starts at 1. 0 means none.
func (w *writer) previousOwners(owners []shardmap.NodeID) {
	names := slices.Clone(owners)
	slices.Sort(names)
	names = slices.Compact(names)
	if len(names) > 0 && names[0] == "" {
		names = names[1:]
	}
	w.uint(uint64(len(names)))
	for _, name := range names {
		w.text(string(name))
	}
	for i := 0; i < len(owners); {
		runLength := 1
		for i+runLength < len(owners) && owners[i+runLength] == owners[i] {
			runLength++
		}
		nameIndex, _ := slices.BinarySearch(names, owners[i])
		if owners[i] != "" {
			nameIndex++
		}
		w.uint(uint64(nameIndex))
		w.uint(uint64(runLength))
		i += runLength
	}
}

// previousOwners reads the output of writer.previousOwners for the given number of shards.
func (r *reader) previousOwners(shards int) []shardmap.NodeID {
	nameCount := r.uint(0, uint64(shards))
	if nameCount == 0 {
		return nil
	}
	names := []shardmap.NodeID{""}
	for range nameCount {
		name := shardmap.NodeID(r.text(1, maxText))
		if r.err == nil && name <= names[len(names)-1] {
			r.fail("names out of order")
		}
		if r.err != nil {
			return nil
		}
		names = append(names, name)
	}
	var owners []shardmap.NodeID
	used := map[uint64]bool{}
	for lastIndex := uint64(len(names)); len(owners) < shards; {
		nameIndex, runLength := r.uint(0, nameCount), r.uint(1, uint64(shards-len(owners)))
		if r.err == nil && nameIndex == lastIndex {
			r.fail("two runs of one name")
		}
		if r.err != nil {
			return nil
		}
		owners = append(owners, slices.Repeat(names[nameIndex:nameIndex+1], int(runLength))...)
		lastIndex, used[nameIndex] = nameIndex, true
	}
	delete(used, 0)
	if len(used) != len(names)-1 {
		r.fail("unused name")
	}
	return owners
}
