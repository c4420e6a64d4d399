package ack

import (
	"fmt"
	"maps"
	"slices"

	"shardway/shardmap"
)

// MarshalBinary encodes the whole state, an open proposal included (rule 8). Equal states have
// equal bytes on every node. The encoding begins with the format version in force. The registry in it is empty.
func (s *State) MarshalBinary() ([]byte, error) { return s.MarshalWithRegistry(nil) }

// MarshalWithRegistry is MarshalBinary with an encoded registry, which this package does not interpret. Before
// RegistryFormatVersion there is none.
func (s *State) MarshalWithRegistry(registry []byte) ([]byte, error) {
	w := newWriter(s.formatVersion)
	w.uint(s.index)
	w.uint(s.ignoredEntries)
	w.text(s.clusterID)
	if s.Bootstrapped() {
		w.writeTiming(s.timing)
		w.writeTiming(s.previousTiming)
		w.uint(s.timingIndex)
	}
	w.uint(s.proposedTerm)
	w.text(s.proposalReason)
	if err := w.writeMaps(s); err != nil {
		return nil, err
	}
	w.writeDrops(s.drops)
	w.writePreviousOwners(s.previousOwners)
	w.writeReleaseRecords(s.releaseRecords.moved)
	w.writeReleaseRecords(s.releaseRecords.kept)
	w.writePolicy(s.policy)
	w.writeRestarts(s.restarts)
	w.writeDepartures(s.departures)
	w.writeFormerMembers(s.formerMembers)
	w.writeKeyConfig(s.keyConfig)
	if s.formatVersion.HasRegistry() {
		w.bytes(registry)
	}
	w.writeJoins(s.joins)
	w.writeServices(s.services)
	return w.buf, nil
}

// writeMaps writes the committed map, and the open proposal if there is one.
func (w *writer) writeMaps(s *State) error {
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

// writeDrops writes the drop records in the order of the nodes.
func (w *writer) writeDrops(drops dropRecords) {
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
	s, _, err := DecodeWithRegistry(data)
	return s, err
}

// DecodeWithRegistry decodes the output of MarshalWithRegistry. The registry shares its bytes with data.
func DecodeWithRegistry(data []byte) (s *State, registry []byte, err error) {
	r := reader{buf: data}
	s = &State{
		formatVersion: r.readFormatVersion(), index: r.uint(0, maxUint), ignoredEntries: r.uint(0, maxUint),
		clusterID: r.text(0, maxText),
	}
	if s.Bootstrapped() {
		s.timing, s.previousTiming, s.timingIndex = r.readTiming(), r.readTiming(), r.uint(0, maxUint)
	}
	s.proposedTerm, s.proposalReason = r.uint(0, maxUint), r.text(0, maxText)
	r.readMaps(s)
	if r.err != nil {
		return nil, nil, r.err // the following fields refer to the maps
	}
	s.drops = r.readDrops()
	s.previousOwners = r.readPreviousOwners(s.committed.Len())
	s.releaseRecords.moved = r.readReleaseRecords(s.committed, false)
	s.releaseRecords.kept = r.readReleaseRecords(s.committed, true)
	s.policy = r.readPolicy()
	s.restarts = r.readRestarts(s.committed)
	s.departures = r.readDepartures(s.committed.Len())
	s.formerMembers = r.readFormerMembers(s.committed)
	s.keyConfig = r.readKeyConfig()
	if r.version.HasRegistry() {
		registry = r.read(int(r.uint(0, MaxRegistry)))
	}
	s.joins = r.readJoins()
	s.services = r.readServices()
	if err = r.finish(); err != nil {
		return nil, nil, err
	}
	if s.keyConfig.contradicts(s.committed, s.HasOpenProposal()) {
		return nil, nil, fmt.Errorf("%w: key configuration of epoch %d in the state of map %d", ErrCorrupt, s.keyConfig.since, s.committed.Epoch())
	}
	return s, registry, nil
}

// readMaps decodes the output of writer.writeMaps.
func (r *reader) readMaps(s *State) {
	s.committed = r.readShardMap()
	s.proposed = s.committed
	if isOpen := r.bool(); !isOpen {
		return
	}
	s.proposed = r.readShardMap()
	if r.err != nil {
		return
	}
	if s.proposed.Len() < s.committed.Len() || s.proposed.Epoch() <= s.committed.Epoch() {
		r.fail(fmt.Sprintf("open proposal %d does not follow map %d", s.proposed.Epoch(), s.committed.Epoch()))
	}
}

// readDrops decodes the output of writer.writeDrops.
func (r *reader) readDrops() dropRecords {
	count := r.uint(0, maxDrops)
	if count == 0 {
		return nil
	}
	drops := make(dropRecords, min(count, 64))
	last := shardmap.NodeID("")
	for range count {
		id := shardmap.NodeID(r.text(1, maxText))
		drop := Drop{Epoch: r.readEpoch(), Cause: r.readCause(), ConsecutiveDrops: uint32(r.uint(0, maxUint32)), InForce: r.bool()}
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
