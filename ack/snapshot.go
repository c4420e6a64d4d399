package ack

import (
	"fmt"
	"maps"
	"slices"

	"shardway/shardmap"
)

// MarshalBinary encodes the whole state, an open proposal included (rule 8). Equal states have
// equal bytes on every node. The encoding begins with the format version in force.
func (s *State) MarshalBinary() ([]byte, error) {
	w := newWriter(s.formatVersion)
	w.uint(s.index)
	w.uint(s.ignoredEntries)
	w.text(s.clusterID)
	if s.Bootstrapped() {
		w.timing(s.timing)
		w.timing(s.previousTiming)
		w.uint(s.timingIndex)
	}
	w.uint(s.proposedTerm)
	w.text(s.proposalReason)
	if err := w.maps(s); err != nil {
		return nil, err
	}
	w.drops(s.drops)
	w.previousOwners(s.previousOwners)
	w.releaseRecords(s.releaseRecords.moved)
	w.releaseRecords(s.releaseRecords.kept)
	w.policy(s.policy)
	w.restarts(s.restarts)
	w.departures(s.departures)
	w.formerMembers(s.formerMembers)
	w.keyConfig(s.keyConfig)
	return w.buf, nil
}

// maps writes the committed map, and the open proposal if there is one.
func (w *writer) maps(s *State) error {
	committed, err := s.committed.MarshalBinary()
	if err != nil {
		return fmt.Errorf("ack: snapshot: %w", err)
	}
	w.bytes(committed)
	w.bool(s.HasOpenProposal())
	if s.HasOpenProposal() {
		proposed, err := s.proposed.MarshalBinary()
		if err != nil {
			return fmt.Errorf("ack: snapshot: %w", err)
		}
		w.bytes(proposed)
	}
	return nil
}

// drops writes the drop records in the order of the nodes.
func (w *writer) drops(drops dropRecords) {
	w.uint(uint64(len(drops)))
	for _, id := range slices.Sorted(maps.Keys(drops)) {
		drop := drops[id]
		w.text(string(id))
		w.uint(uint64(drop.Epoch))
		w.byte(byte(drop.Cause))
		w.uint(uint64(drop.ConsecutiveDrops))
		w.bool(drop.InForce)
	}
}

// DecodeState decodes the output of MarshalBinary. For any other input the error is
// ErrCorrupt, and describes the cause.
func DecodeState(data []byte) (*State, error) {
	r := reader{buf: data}
	s := &State{
		formatVersion: r.formatVersion(), index: r.uint(0, maxUint), ignoredEntries: r.uint(0, maxUint),
		clusterID: r.text(0, maxText),
	}
	if s.Bootstrapped() {
		s.timing, s.previousTiming, s.timingIndex = r.timing(), r.timing(), r.uint(0, maxUint)
	}
	s.proposedTerm, s.proposalReason = r.uint(0, maxUint), r.text(0, maxText)
	r.maps(s)
	if r.err != nil {
		return nil, r.err // the following fields refer to the maps
	}
	s.drops = r.drops()
	s.previousOwners = r.previousOwners(s.committed.Len())
	s.releaseRecords.moved = r.releaseRecords(s.committed, false)
	s.releaseRecords.kept = r.releaseRecords(s.committed, true)
	s.policy = r.policy()
	s.restarts = r.restarts(s.committed)
	s.departures = r.departures(s.committed.Len())
	s.formerMembers = r.formerMembers(s.committed)
	s.keyConfig = r.keyConfig()
	if err := r.finish(); err != nil {
		return nil, err
	}
	if s.keyConfig.contradicts(s.committed, s.HasOpenProposal()) {
		return nil, fmt.Errorf("%w: key configuration of epoch %d in the state of map %d", ErrCorrupt, s.keyConfig.since, s.committed.Epoch())
	}
	return s, nil
}

// maps decodes the output of writer.maps.
func (r *reader) maps(s *State) {
	s.committed = r.shardMap()
	s.proposed = s.committed
	if isOpen := r.bool(); !isOpen {
		return
	}
	s.proposed = r.shardMap()
	if r.err != nil {
		return
	}
	if s.proposed.Len() != s.committed.Len() || s.proposed.Epoch() <= s.committed.Epoch() {
		r.fail(fmt.Sprintf("open proposal %d does not follow map %d", s.proposed.Epoch(), s.committed.Epoch()))
	}
}

// drops decodes the output of writer.drops.
func (r *reader) drops() dropRecords {
	count := r.uint(0, maxDrops)
	if count == 0 {
		return nil
	}
	drops := make(dropRecords, min(count, 64))
	last := shardmap.NodeID("")
	for range count {
		id := shardmap.NodeID(r.text(1, maxText))
		drop := Drop{Epoch: r.epoch(), Cause: r.cause(), ConsecutiveDrops: uint32(r.uint(0, maxUint32)), InForce: r.bool()}
		if r.err == nil && id <= last {
			r.fail("drops out of order")
		}
		if r.err != nil {
			return nil
		}
		drops[id] = drop
		last = id
	}
	return drops
}
