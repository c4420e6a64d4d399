package ack

import (
	"slices"

	"shardway/shardmap"
)

// previousOwners contains, by shard, the owner before the current one, as shardmap.InstanceID returns
// it; nil means that no shard has
// had another owner.
type previousOwners []shardmap.NodeID

// PreviousOwner returns the owner of the shard before its current owner, as shardmap.InstanceID returns
// it, or the last owner if it has none; empty if there was none. An owner that returned the shard without having acquired
// it is skipped.
func (s *State) PreviousOwner(shard shardmap.Shard) shardmap.NodeID {
	if int(shard) >= len(s.previousOwners) {
		return ""
	}
	return s.previousOwners[shard]
}

// PreviousOwners returns the result of PreviousOwner for every shard, or nil if no shard has had another owner. It
// must not be modified.
func (s *State) PreviousOwners() []shardmap.NodeID { return s.previousOwners }

// withCommit returns the previous owners after the commit of a proposal. released are the releases of
// the shards that move.
func (po previousOwners) withCommit(committed, proposed *shardmap.Map, released []Released) previousOwners {
	po = po.withLength(proposed.Len())
	moves := shardmap.Diff(committed, proposed)
	if len(moves) == 0 {
		return po
	}
	owners := slices.Clone(po)
	returned := map[shardmap.Shard]bool{} // by an owner that never acquired the shard
	for _, release := range released {
		returned[release.Shard] = release.From != ""
	}
	for _, move := range moves {
		if move.From == "" || returned[move.Shard] {
			continue // the previous owner remains the one that last held the shard
		}
		if owners == nil {
			owners = make(previousOwners, proposed.Len())
		}
		owners[move.Shard] = shardmap.InstanceID(move.From, move.FromInstance)
	}
	return owners
}

// withLength returns the previous owners for a map of the given length, which is not shorter. Further
// shards have none.
func (po previousOwners) withLength(length int) previousOwners {
	if po == nil || len(po) == length {
		return po
	}
	return append(slices.Clone(po), make(previousOwners, length-len(po))...)
}

// without returns the previous owners without those of the shards of a service.
func (po previousOwners) without(service Service) previousOwners {
	owners := slices.Clone(po)
	if int(service.First) < len(owners) {
		clear(owners[service.First:min(service.End(), len(owners))])
	}
	if !slices.ContainsFunc(owners, func(id shardmap.NodeID) bool { return id != "" }) {
		return nil
	}
	return owners
}

// writePreviousOwners writes the previous owners by shard, as runs of shards with the same owner. An
// owner is encoded as its position in a sorted list of names, counted from 1. 0 means none.
func (w *writer) writePreviousOwners(owners []shardmap.NodeID) {
	names := slices.Clone(owners)
	slices.Sort(names)
	names = slices.Compact(names)
	if len(names) > 0 && names[0] == "" { // some shards have no previous owner
		names = names[1:]
	}
	w.uint(uint64(len(names)))
	for _, name := range names {
		w.text(string(name))
	}
	for len(owners) > 0 {
		owner := owners[0]
		runLength := 1
		for runLength < len(owners) && owners[runLength] == owner {
			runLength++
		}
		position := 0
		if i, found := slices.BinarySearch(names, owner); found {
			position = i + 1
		}
		w.uint(uint64(position))
		w.uint(uint64(runLength))
		owners = owners[runLength:]
	}
}

// readPreviousOwners decodes the output of writer.writePreviousOwners for the given number of shards.
func (r *reader) readPreviousOwners(shards int) []shardmap.NodeID {
	names := r.readOwnerNames(shards)
	if len(names) == 0 {
		return nil
	}
	names = append([]shardmap.NodeID{""}, names...)
	usedPositions := map[uint64]bool{0: true} // in names; position 0 (no owner) need not occur
	lastPosition := uint64(len(names))        // none yet
	var owners []shardmap.NodeID
	for len(owners) < shards {
		position, runLength := r.uint(0, uint64(len(names)-1)), r.uint(1, uint64(shards-len(owners)))
		if r.err == nil && position == lastPosition {
			r.fail("two runs of one name")
		}
		if r.err != nil {
			return nil
		}
		owners = append(owners, slices.Repeat(names[position:position+1], int(runLength))...)
		usedPositions[position], lastPosition = true, position
	}
	if len(usedPositions) != len(names) {
		r.fail("unused name")
	}
	return owners
}

// readOwnerNames reads the sorted list of names of previous owners.
func (r *reader) readOwnerNames(shards int) []shardmap.NodeID {
	var names []shardmap.NodeID
	for range r.uint(0, uint64(shards)) {
		name := r.readInstanceID()
		if r.err == nil && len(names) > 0 && name <= names[len(names)-1] {
			r.fail("names out of order")
		}
		if r.err != nil {
			return nil
		}
		names = append(names, name)
	}
	return names
}
