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
	encodedMap, err := s.committed.MarshalBinary()
	if err != nil {
		return nil, fmt.Errorf("ack: snapshot: %w", err)
	}
	w.bytes(encodedMap)
	w.bool(s.HasOpenProposal())
	if s.HasOpenProposal() {
		if encodedMap, err = s.proposed.MarshalBinary(); err != nil {
			return nil, fmt.Errorf("ack: snapshot: %w", err)
		}
		w.bytes(encodedMap)
	}
	w.uint(uint64(len(s.drops)))
	for _, id := range slices.Sorted(maps.Keys(s.drops)) {
		drop := s.drops[id]
		w.text(string(id))
		w.uint(uint64(drop.Epoch))
		w.byte(byte(drop.Cause))
		w.uint(uint64(drop.Strikes))
		w.bool(drop.InForce)
	}
	w.previousOwners(s.previousOwners)
	w.releaseNotes(s.releaseNotes)
	w.releaseNotes(s.keptNotes)
	w.policy(s.policy)
	w.restarts(s)
	w.departures(s)
	w.formerMembers(s.formerMembers)
	w.text(s.keyConfig)
	w.uint(uint64(s.keyConfigSince))
	w.text(s.proposedKeyConfig)
	return w.buf, nil
}

// DecodeState decodes the output of MarshalBinary. For any other input the error is
// ErrCorrupt, and describes the cause.
func DecodeState(data []byte) (*State, error) {
	r := reader{buf: data}
	s := &State{formatVersion: r.formatVersion(), index: r.uint(0, maxUint), ignoredEntries: r.uint(0, maxUint), clusterID: r.text(0, maxText)}
	if s.Bootstrapped() {
		s.timing, s.previousTiming, s.timingIndex = r.timing(), r.timing(), r.uint(0, maxUint)
	}
	s.proposedTerm, s.proposalReason = r.uint(0, maxUint), r.text(0, maxText)
	s.committed = r.shardMap()
	s.proposed = s.committed
	if r.bool() {
		s.proposed = r.shardMap()
	}
	if n := r.uint(0, maxDrops); n > 0 {
		s.drops = make(map[shardmap.NodeID]Drop, min(n, 64))
		last := shardmap.NodeID("")
		for range n {
			id := shardmap.NodeID(r.text(1, maxText))
			drop := Drop{Epoch: shardmap.Epoch(r.uint(0, maxUint)), Cause: r.cause(), Strikes: uint32(r.uint(0, maxUint32)), InForce: r.bool()}
			if r.err == nil && id <= last {
				r.fail("drops out of order")
			}
			if r.err != nil {
				break
			}
			s.drops[id] = drop
			last = id
		}
	}
	if r.err == nil {
		s.previousOwners = r.previousOwners(s.committed.Len())
	}
	if r.err == nil {
		s.releaseNotes, s.keptNotes = r.releaseNotes(s.committed, false), r.releaseNotes(s.committed, true)
	}
	s.policy = r.policy()
	r.restarts(s)
	if r.err == nil {
		r.departures(s)
	}
	if r.err == nil {
		s.formerMembers = r.formerMembers(s.committed)
	}
	s.keyConfig, s.keyConfigSince, s.proposedKeyConfig = r.text(0, MaxKeyConfig), shardmap.Epoch(r.uint(0, maxUint)), r.text(0, MaxKeyConfig)
	if err := r.finish(); err != nil {
		return nil, err
	}
	if s.proposedKeyConfig != "" && (s.proposed == s.committed || s.proposedKeyConfig == s.keyConfig) || s.keyConfigSince > s.committed.Epoch() || (s.keyConfig == "") != (s.keyConfigSince == 0) {
		return nil, fmt.Errorf("%w: key configuration of epoch %d in the state of map %d", ErrCorrupt, s.keyConfigSince, s.committed.Epoch())
	}
	if s.proposed != s.committed && (s.proposed.Len() != s.committed.Len() || s.proposed.Epoch() <= s.committed.Epoch()) {
		return nil, fmt.Errorf("%w: open proposal %d does not follow map %d", ErrCorrupt, s.proposed.Epoch(), s.committed.Epoch())
	}
	return s, nil
}
