package leader

import (
	"time"

	"shardway/ack"
	"shardway/shardmap"
)

// This file contains the part of the leader that handles a restart in place. The old process of a node
// sends a goodbye: its last heartbeat (Heartbeat.Goodbye), which means that the process has stopped
// running requests. With RestartWithin, the goodbye announces that a new process of the node will
// start. Two kinds of data then refer to the node:
//   - ack.Restart in the Raft log: the map keeps the shards of the node in place until the restart
//     ends. The leader submits an ack.RestartEntry for its begin and for its end.
//   - ack.Releases, which the old process sends to the leader separately: the shards that its app has
//     released, with their notes. The begin entry contains them for the new process.
//
// Boot is the incarnation number: it increases with each start of a process on the same disk.

// maxReleaseWait bounds how long a leader waits for the releases of a restarting node. Nodes that join
// at that time must wait as well.
const maxReleaseWait = time.Second

// restartTimes are the times of a restart in place that a leader measures.
type restartTimes struct {
	firstSeenAt time.Duration // when this leader first saw the current restart; if it was in the log already, the election
	endedAt     time.Duration // when this leader saw the end of the last restart
	goodbyeAt   time.Duration // when this leader received the goodbye of the process with the newest Boot
}

// submitRestart submits the begin or the end of a restart. It returns true if it has submitted an
// entry, or if it delays a begin entry until the releases of the node have arrived. In both cases the
// caller must not propose a map, because the map must leave the shards of the node in place.
func (l *Leader) submitRestart() bool {
	var next ack.RestartEntry
	waitsForReleases := false
	for id, node := range l.members.byID {
		if node.awaitsReleases(l.in) && !l.membership.needsMapNow(l.in, &l.members) {
			waitsForReleases = true
			continue
		}
		if entry, ok := node.restartEntry(l.in); ok && (next.Node == "" || id < next.Node) {
			next = entry
		}
	}
	if next.Node == "" {
		return waitsForReleases
	}
	l.emit(Event{Kind: EventRestart, Node: next.Node, Grace: next.Grace})
	l.submitConfig(ack.EncodeRestart(l.in.state.FormatVersion(), next), 0)
	return true
}

// needsMapNow reports whether clients need a new map urgently, so that it must not be delayed. Either
// shards are moving, or a node has failed that did not announce a restart.
func (ms *membership) needsMapNow(in inputs, nodes *memberTracker) bool {
	if in.state.HasOpenProposal() && len(shardmap.Diff(in.state.Committed(), in.state.Proposed())) > 0 {
		return true
	}
	for _, member := range in.state.Proposed().Members() {
		node := nodes.getOrCreate(member.ID)
		willReturn := node.announcesRestart(in) || in.isRestarting(node)
		if !willReturn && !ms.isEligible(in, node) && !ms.keepsAllShards(in, node) {
			return true
		}
	}
	return false
}

// announcesRestart reports whether the node has announced a restart that is not yet committed to the
// Raft log.
func (m *member) announcesRestart(in inputs) bool {
	if in.isMarkedFailed(m) {
		return false // the shards of a failed node do not wait for its next process
	}
	if m.heartbeat.RestartWithin <= 0 || !in.state.Committed().IsMember(m.id) || !in.isMember(m.id) {
		return false
	}
	restart, known := in.state.Restart(m.id)
	return !known || restart.Boot < m.heartbeat.Boot
}

// awaitsReleases reports whether the leader must wait for the releases of the node, because they may
// still be in transit. That happens if the leadership has changed: only the previous leader has
// received them. The node sends them again once it has received a response of the new leader, for up
// to NoteDeliveryTime. The leader allows the same time for that response, so it waits for twice
// NoteDeliveryTime after the goodbye.
func (m *member) awaitsReleases(in inputs) bool {
	if !m.announcesRestart(in) || m.heartbeat.ReleasesDigest == [32]byte{} || m.hasReleases() {
		return false
	}
	maxWait := min(2*ack.NoteDeliveryTime(m.heartbeat.ReleaseTime), maxReleaseWait)
	return in.now-m.restartTimes.goodbyeAt < maxWait
}

// restartEntry returns the entry that begins or ends the restart of a node. ok is false if no entry
// is needed.
func (m *member) restartEntry(in inputs) (entry ack.RestartEntry, ok bool) {
	if m.announcesRestart(in) {
		entry = ack.RestartEntry{Term: in.term, Node: m.id, Boot: m.heartbeat.Boot, Grace: m.heartbeat.RestartWithin}
		if m.hasReleases() && len(m.releases.Shards) > 0 {
			entry.Released, entry.Server, entry.Proposal = m.releases.Shards, m.releases.Server, m.releases.Proposal
		}
		return entry, true
	}
	restart, _ := in.state.Restart(m.id)
	graceIsOver := in.now-m.restartTimes.firstSeenAt >= restart.Grace
	mustEnd := graceIsOver || m.isServingAgain(in, restart) || in.isMarkedFailed(m)
	if in.isRestarting(m) && mustEnd {
		return ack.RestartEntry{Term: in.term, Node: m.id, Boot: restart.Boot}, true
	}
	return ack.RestartEntry{}, false
}

// isServingAgain reports whether a process that started after the restart began serves the shards
// of the node. A process that is already stopping again also ends the restart.
func (m *member) isServingAgain(in inputs, restart ack.Restart) bool {
	switch {
	case m.heartbeat.Boot <= restart.Boot || m.isSilent(in):
		return false
	case m.isStopping():
		return true
	}
	return !m.heartbeat.Unhealthy && m.freshEchoCount >= requiredFreshEchoes && m.hasFreshLease(in)
}

// applyRestarts updates the restart times for a newer state of the log. It reports whether the
// restarts have changed.
func (mt *memberTracker) applyRestarts(in inputs, old *ack.State) bool {
	state := in.state
	if state.RestartsIndex() == old.RestartsIndex() {
		return false
	}
	for _, restarts := range [...]map[shardmap.NodeID]ack.Restart{old.Restarts(), state.Restarts()} {
		for id := range restarts {
			times := &mt.getOrCreate(id).restartTimes
			isNew := old.Restarts()[id] != state.Restarts()[id]
			switch {
			case state.Restarting(id) && isNew:
				times.firstSeenAt = in.now
			case old.Restarting(id) && !state.Restarting(id):
				times.endedAt = in.now
			}
		}
	}
	return true
}

// sameShards reports whether the proposed map gives the node the same shards as the committed one. The
// proposed map may be longer.
func sameShards(committed, proposed *shardmap.Map, node shardmap.NodeID) bool {
	for shard := range shardmap.Shard(proposed.Len()) {
		isOwner := committed.Owner(shard) == node || proposed.Owner(shard) == node
		if isOwner && !committed.HasSameOwner(proposed, shard) {
			return false
		}
	}
	return true
}

// needsNoFurtherAck reports whether the proposed map can be committed without a further
// acknowledgement of the node (guarantee G4 of docs/internals/protocol.md). One of these conditions
// must hold:
//   - The node has acknowledged the map, and its releases have arrived.
//   - The node is restarting, so it cannot acknowledge, and the map leaves its shards in place. A
//     change of the key configuration still requires its acknowledgement, because the next
//     process of a restarting node may serve already.
func (m *member) needsNoFurtherAck(in inputs) bool {
	proposed := in.state.Proposed()
	if m.hasCompleteAck(proposed.Epoch()) {
		return true
	}
	return in.isRestarting(m) && !in.state.ChangesKeyConfig() && sameShards(in.state.Committed(), proposed, m.id)
}
