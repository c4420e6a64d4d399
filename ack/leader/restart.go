package leader

import (
	"time"

	"shardway/ack"
	"shardway/shardmap"
)

// maxReleaseWait bounds how long a leader waits for the releases of a restarting node, because
// joining nodes wait, too.
const maxReleaseWait = time.Second

// restartTimes are the times of a restart in place that a leader measures.
type restartTimes struct {
	firstSeenAt time.Duration // when the present restart was first seen; initially the election
	endedAt     time.Duration // when the end of the last restart was seen
	goodbyeAt   time.Duration // when this leader received the goodbye of the present boot
}

// isRestarting reports whether the node restarts in place. It then remains a member regardless
// of its heartbeats, unless an operator removes it.
func (l *Leader) isRestarting(node *member) bool { return l.state.Restarting(node.id) && !node.removed }

// restartingNodes returns the nodes that restart in place.
func (l *Leader) restartingNodes() map[shardmap.NodeID]bool {
	var ids map[shardmap.NodeID]bool
	for id := range l.state.Restarts() {
		if l.isRestarting(l.member(id)) {
			setKey(&ids, id, true)
		}
	}
	return ids
}

// submitRestart submits the begin or the end of a restart. It returns true if it did, or if a
// begin waits for releases: until then the map must leave the shards of the node in place.
func (l *Leader) submitRestart(now time.Duration) bool {
	var next ack.RestartEntry
	awaited := false
	for id, node := range l.members {
		if l.awaitsReleases(now, node) && !l.clientsWait(now) {
			awaited = true
			continue
		}
		if entry, ok := l.restartChange(now, node); ok && (next.Node == "" || id < next.Node) {
			next = entry
		}
	}
	if next.Node == "" {
		return awaited
	}
	l.entryInFlight, l.configEntryInFlight, l.submittedAt = true, true, now
	l.emit(Event{Kind: EventRestart, Node: next.Node, Grace: next.Grace})
	l.emit(Submit{Entry: ack.EncodeRestart(l.state.FormatVersion(), next)})
	return true
}

// announcesRestart reports whether the node has announced a restart that is not in the log.
func (l *Leader) announcesRestart(node *member) bool {
	restart, known := l.state.Restart(node.id)
	return node.heartbeat.RestartWithin > 0 && l.state.Committed().IsMember(node.id) && l.state.Proposed().IsMember(node.id) && (!known || restart.Boot < node.heartbeat.Boot)
}

// awaitsReleases reports whether the releases for the next process of the node are still in
// transit, because the leader that received the goodbye no longer leads. The node sends them for
// NoteDeliveryTime once it gets a response of the new leader, and the leader allows as much time
// for that.
func (l *Leader) awaitsReleases(now time.Duration, node *member) bool {
	return l.announcesRestart(node) && node.heartbeat.ReleasesDigest != [32]byte{} && !node.hasReleases() && now-node.restartTimes.goodbyeAt < min(2*ack.NoteDeliveryTime(node.heartbeat.ReleaseTime), maxReleaseWait)
}

// clientsWait reports whether clients wait for a map: for moving shards, or for shards of a
// failed node that announced no restart.
func (l *Leader) clientsWait(now time.Duration) bool {
	if l.state.HasOpenProposal() && len(shardmap.Diff(l.state.Committed(), l.state.Proposed())) > 0 {
		return true
	}
	for _, member := range l.state.Proposed().Members() {
		if node := l.member(member.ID); !l.announcesRestart(node) && !l.isRestarting(node) && !l.isEligible(now, node) {
			return true
		}
	}
	return false
}

// restartChange returns the entry that is needed for a node. ok is false if none is.
func (l *Leader) restartChange(now time.Duration, node *member) (ack.RestartEntry, bool) {
	restart, _ := l.state.Restart(node.id)
	switch {
	case l.announcesRestart(node):
		entry := ack.RestartEntry{Term: l.options.Term, Node: node.id, Boot: node.heartbeat.Boot, Grace: node.heartbeat.RestartWithin}
		if node.hasReleases() && len(node.releases.Shards) > 0 {
			entry.Released, entry.Server, entry.Proposal = node.releases.Shards, node.releases.Server, node.releases.Proposal
		}
		return entry, true
	case l.isRestarting(node) && (l.isServingAgain(now, node, restart) || now-node.restartTimes.firstSeenAt >= restart.Grace):
		return ack.RestartEntry{Term: l.options.Term, Node: node.id, Boot: restart.Boot}, true
	}
	return ack.RestartEntry{}, false
}

// isServingAgain reports whether a later process of the node serves its shards, or leaves.
func (l *Leader) isServingAgain(now time.Duration, node *member, restart ack.Restart) bool {
	switch {
	case node.heartbeat.Boot <= restart.Boot || node.isSilent(now, l.options.Pace):
		return false
	case node.heartbeat.Leaving, node.heartbeat.Goodbye:
		return true
	}
	return !node.heartbeat.Unhealthy && node.freshStreak >= requiredStreak && node.hadLease && now-node.lastGrantAt <= l.maxTiming.Lease
}

// restartsApplied updates the restart times for a newer state.
func (l *Leader) restartsApplied(now time.Duration, old *ack.State) {
	if l.state.RestartsIndex() == old.RestartsIndex() {
		return
	}
	for _, state := range [...]*ack.State{old, l.state} {
		for id := range state.Restarts() {
			node := l.member(id)
			switch before, after := old.Restarts()[id], l.state.Restarts()[id]; {
			case l.state.Restarting(id) && before != after:
				node.restartTimes.firstSeenAt = now
			case old.Restarting(id) && !l.state.Restarting(id):
				node.restartTimes.endedAt = now
			}
		}
	}
	if l.configEntryInFlight {
		l.entryInFlight, l.configEntryInFlight = false, false
	}
}

// sameShards reports whether the proposed map gives the node the same shards as the committed one.
func sameShards(committed, proposed *shardmap.Map, node shardmap.NodeID) bool {
	for shard := range shardmap.Shard(committed.Len()) {
		if (committed.Owner(shard) == node) != (proposed.Owner(shard) == node) {
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
func (l *Leader) needsNoFurtherAck(node *member, proposed *shardmap.Map) bool {
	return node.hasCompleteAck(proposed.Epoch()) || l.isRestarting(node) && !l.state.ChangesKeyConfig() && sameShards(l.state.Committed(), proposed, node.id)
}
