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
	since     time.Duration // when the present restart was first seen; initially the election
	endedAt   time.Duration // when the end of the last restart was seen
	goodbyeAt time.Duration // when this leader received the goodbye of the present boot
}

// isRestarting reports whether the node restarts in place. It then remains a member regardless
// of its heartbeats, unless an operator removes it.
func (l *Leader) isRestarting(n *member) bool { return l.state.Restarting(n.id) && !n.removed }

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
	for id, n := range l.members {
		if l.awaitsReleases(now, n) && !l.clientsWait(now) {
			awaited = true
			continue
		}
		if c, ok := l.restartChange(now, n); ok && (next.Node == "" || id < next.Node) {
			next = c
		}
	}
	if next.Node == "" {
		return awaited
	}
	l.entryInFlight, l.changeInFlight, l.submittedAt = true, true, now
	l.emit(Event{Kind: EventRestart, Node: next.Node, Grace: next.Grace})
	l.emit(Submit{Entry: ack.EncodeRestart(l.state.FormatVersion(), next)})
	return true
}

// announcesRestart reports whether the node has announced a restart that is not in the log.
func (l *Leader) announcesRestart(n *member) bool {
	a, known := l.state.Restart(n.id)
	return n.heartbeat.RestartWithin > 0 && l.state.Committed().Has(n.id) && l.state.Proposed().Has(n.id) && (!known || a.Boot < n.heartbeat.Boot)
}

// awaitsReleases reports whether the releases for the next process of the node are still in
// transit, because the leader that received the goodbye no longer leads. The node sends them
// for NoteDeliveryTime once it gets a response of the new leader, and the leader allows as much time
// for that.
func (l *Leader) awaitsReleases(now time.Duration, n *member) bool {
	return l.announcesRestart(n) && n.heartbeat.ReleasesDigest != [32]byte{} && !n.hasReleases() && now-n.restart.goodbyeAt < min(2*ack.NoteDeliveryTime(n.heartbeat.ReleaseTime), maxReleaseWait)
}

// clientsWait reports whether clients wait for a map: for moving shards, or for shards of a
// failed node that announced no restart.
func (l *Leader) clientsWait(now time.Duration) bool {
	if l.state.HasOpenProposal() && len(shardmap.Diff(l.state.Committed(), l.state.Proposed())) > 0 {
		return true
	}
	for _, m := range l.state.Proposed().Members() {
		if n := l.member(m.ID); !l.announcesRestart(n) && !l.isRestarting(n) && !l.isEligible(now, n) {
			return true
		}
	}
	return false
}

// restartChange returns the entry that is needed for a node. ok is false if none is.
func (l *Leader) restartChange(now time.Duration, n *member) (ack.RestartEntry, bool) {
	a, _ := l.state.Restart(n.id)
	switch {
	case l.announcesRestart(n):
		c := ack.RestartEntry{Term: l.options.Term, Node: n.id, Boot: n.heartbeat.Boot, Grace: n.heartbeat.RestartWithin}
		if n.hasReleases() && len(n.releases.Shards) > 0 {
			c.Released, c.Server, c.Proposal = n.releases.Shards, n.releases.Server, n.releases.Proposal
		}
		return c, true
	case l.isRestarting(n) && (l.isServingAgain(now, n, a) || now-n.restart.since >= a.Grace):
		return ack.RestartEntry{Term: l.options.Term, Node: n.id, Boot: a.Boot}, true
	}
	return ack.RestartEntry{}, false
}

// isServingAgain reports whether a later process of the node serves its shards, or leaves.
func (l *Leader) isServingAgain(now time.Duration, n *member, a ack.Restart) bool {
	switch {
	case n.heartbeat.Boot <= a.Boot || n.isSilent(now, l.options.Pace):
		return false
	case n.heartbeat.Leaving, n.heartbeat.Goodbye:
		return true
	}
	return !n.heartbeat.Unhealthy && n.freshStreak >= requiredStreak && n.hadLease && now-n.lastGrantAt <= l.maxTiming.Lease
}

// restartsApplied updates the restart times for a newer state.
func (l *Leader) restartsApplied(now time.Duration, old *ack.State) {
	if l.state.RestartsIndex() == old.RestartsIndex() {
		return
	}
	for _, s := range [...]*ack.State{old, l.state} {
		for id := range s.Restarts() {
			n := l.member(id)
			switch before, after := old.Restarts()[id], l.state.Restarts()[id]; {
			case l.state.Restarting(id) && before != after:
				n.restart.since = now
			case old.Restarting(id) && !l.state.Restarting(id):
				n.restart.endedAt = now
			}
		}
	}
	if l.changeInFlight {
		l.entryInFlight, l.changeInFlight = false, false
	}
}

// sameShards reports whether p gives the node the same shards as base.
func sameShards(base, p *shardmap.Map, node shardmap.NodeID) bool {
	for s := range shardmap.Shard(base.Len()) {
		if (base.Owner(s) == node) != (p.Owner(s) == node) {
			return false
		}
	}
	return true
}

// needsNoFurtherAck reports whether p can be committed without a further acknowledgement of the
// node (guarantee G4 of docs/internals/protocol.md). One of these conditions must hold:
//   - The node has acknowledged p, and its releases have arrived.
//   - The node is restarting, so it cannot acknowledge, and p leaves its shards in place. A
//     change of the key configuration still requires its acknowledgement, because the next
//     process of a restarting node may serve already.
func (l *Leader) needsNoFurtherAck(n *member, p *shardmap.Map) bool {
	return n.hasCompleteAck(p.Epoch()) || l.isRestarting(n) && !l.state.ChangesKeyConfig() && sameShards(l.state.Committed(), p, n.id)
}
