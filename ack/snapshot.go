package ack

import (
	"fmt"
	"maps"
	"slices"

	"shardway/shardmap"
)

// MarshalBinary encodes the whole state, an open proposal included (rule 8). Equal states have
// equal bytes on every node. The encoding begins with the level in force.
func (s *State) MarshalBinary() ([]byte, error) {
	w := newWriter(s.level)
	w.uint(s.index)
	w.uint(s.ignored)
	w.text(s.cluster)
	if s.Bootstrapped() {
		w.timing(s.timing)
		w.timing(s.timingBefore)
		w.uint(s.timingIndex)
	}
	w.uint(s.lastTerm)
	w.text(s.reason)
	m, err := s.committed.MarshalBinary()
	if err != nil {
		return nil, fmt.Errorf("ack: snapshot: %w", err)
	}
	w.bytes(m)
	w.bool(s.Open())
	if s.Open() {
		if m, err = s.last.MarshalBinary(); err != nil {
			return nil, fmt.Errorf("ack: snapshot: %w", err)
		}
		w.bytes(m)
	}
	w.uint(uint64(len(s.drops)))
	for _, id := range slices.Sorted(maps.Keys(s.drops)) {
		d := s.drops[id]
		w.text(string(id))
		w.uint(uint64(d.Epoch))
		w.byte(byte(d.Cause))
		w.uint(uint64(d.Strikes))
		w.bool(d.InForce)
	}
	w.previous(s.previous)
	w.releaseNotes(s.releaseNotes)
	w.releaseNotes(s.keptNotes)
	w.policy(s.policy)
	w.restarts(s)
	w.departures(s)
	w.formerMembers(s.formerMembers)
	w.text(s.keys)
	w.uint(uint64(s.keysSince))
	w.text(s.proposedKeys)
	return w.b, nil
}

// DecodeState decodes the output of MarshalBinary. For any other input the error is
// ErrCorrupt, and describes the cause.
func DecodeState(b []byte) (*State, error) {
	r := reader{b: b}
	s := &State{level: r.level(), index: r.uint(0, maxUint), ignored: r.uint(0, maxUint), cluster: r.text(0, maxText)}
	if s.Bootstrapped() {
		s.timing, s.timingBefore, s.timingIndex = r.timing(), r.timing(), r.uint(0, maxUint)
	}
	s.lastTerm, s.reason = r.uint(0, maxUint), r.text(0, maxText)
	s.committed = r.shardMap()
	s.last = s.committed
	if r.bool() {
		s.last = r.shardMap()
	}
	if n := r.uint(0, maxDrops); n > 0 {
		s.drops = make(map[shardmap.NodeID]Drop, min(n, 64))
		last := shardmap.NodeID("")
		for range n {
			id := shardmap.NodeID(r.text(1, maxText))
			d := Drop{Epoch: shardmap.Epoch(r.uint(0, maxUint)), Cause: r.cause(), Strikes: uint32(r.uint(0, maxUint32)), InForce: r.bool()}
			if r.err == nil && id <= last {
				r.fail("drops out of order")
			}
			if r.err != nil {
				break
			}
			s.drops[id] = d
			last = id
		}
	}
	if r.err == nil {
		s.previous = r.previous(s.committed.Len())
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
	s.keys, s.keysSince, s.proposedKeys = r.text(0, MaxKeys), shardmap.Epoch(r.uint(0, maxUint)), r.text(0, MaxKeys)
	if err := r.end(); err != nil {
		return nil, err
	}
	if s.proposedKeys != "" && (s.last == s.committed || s.proposedKeys == s.keys) || s.keysSince > s.committed.Epoch() || (s.keys == "") != (s.keysSince == 0) {
		return nil, fmt.Errorf("%w: key configuration of epoch %d in the state of map %d", ErrCorrupt, s.keysSince, s.committed.Epoch())
	}
	if s.last != s.committed && (s.last.Len() != s.committed.Len() || s.last.Epoch() <= s.committed.Epoch()) {
		return nil, fmt.Errorf("%w: open proposal %d does not follow map %d", ErrCorrupt, s.last.Epoch(), s.committed.Epoch())
	}
	return s, nil
}
