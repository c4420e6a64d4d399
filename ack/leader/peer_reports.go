package leader

import (
	"slices"
	"time"

	"shardway/ack"
	"shardway/shardmap"
)

// minReporters is the number of members that must report that they cannot connect to a node. A report of a
// single member does not show which of the two nodes has failed.
const minReporters = 2

// peerReports counts the reports of members that cannot connect to a node (Heartbeat.Unreachable). Most clients of
// such a node get errors, although the leader receives its heartbeats, so the next map must exclude it
// (docs/internals/protocol-reachability.md).
type peerReports struct {
	counts map[shardmap.NodeID]int // number of members that report a node; reused
	// anyReported is set if most members report some node.
	anyReported bool
	// anyChanged is set if member.wasReported of some node is outdated.
	anyChanged bool
}

// update counts the reports once in each step.
func (pr *peerReports) update(in inputs, nodes *memberTracker) {
	clear(pr.counts)
	reporters := 0
	for _, node := range nodes.byID {
		if !node.mayReport(in) {
			continue
		}
		reporters++
		for _, id := range node.heartbeat.Unreachable {
			if id != node.id {
				setKey(&pr.counts, id, pr.counts[id]+1)
			}
		}
	}
	if len(pr.counts) == 0 && !pr.anyReported {
		return
	}
	pr.anyReported = false
	for id, node := range nodes.byID {
		others := reporters
		if node.mayReport(in) {
			others--
		}
		isReported := pr.counts[id] >= minReporters && 2*pr.counts[id] > others
		node.updatePeerReports(in.now, isReported)
		pr.anyReported = pr.anyReported || isReported
		pr.anyChanged = pr.anyChanged || node.wasReported != isReported
	}
}

// takeChanges returns the nodes, ascending, that most members have begun or stopped to report since the last call.
func (pr *peerReports) takeChanges(nodes *memberTracker) (changed []shardmap.NodeID) {
	if !pr.anyChanged {
		return nil
	}
	pr.anyChanged = false
	for id, node := range nodes.byID {
		if isReported := node.reportedSince >= 0; isReported != node.wasReported {
			node.wasReported = isReported
			changed = append(changed, id)
		}
	}
	slices.Sort(changed)
	return changed
}

// mayReport reports whether the reports of the node count: it is a member with a lease, so clients can use it, and
// its newest heartbeat is recent.
func (m *member) mayReport(in inputs) bool {
	if !in.isMember(m.id) || m.heartbeat.Gateway || m.heartbeat.Goodbye || m.hasCrashed() {
		return false
	}
	return m.hasFreshLease(in) && !m.isSilent(in)
}

// updatePeerReports records whether most other members report the node now.
func (m *member) updatePeerReports(now time.Duration, isReported bool) {
	switch {
	case isReported && m.reportedSince < 0:
		m.reportedSince = now
	case !isReported:
		m.forgetPeerReports(now)
	}
}

// forgetPeerReports ends the reports about the node. Reports about an earlier process do not count for the next one.
func (m *member) forgetPeerReports(now time.Duration) {
	if m.reportedSince >= 0 {
		m.reportedSince, m.reportsEndedAt = -1, now
	}
}

// isReportedFor reports whether most other members have reported the node for longer than d.
func (m *member) isReportedFor(in inputs, d time.Duration) bool {
	return m.reportedSince >= 0 && in.now-m.reportedSince > d
}

// isReportedDrop reports whether the node is excluded because most members could not connect to it.
func (m *member) isReportedDrop(in inputs) bool {
	drop, _ := in.state.Drop(m.id)
	return drop.InForce && drop.Cause == ack.CauseUnreachable
}

// reportHold returns how long a node that was excluded because of reports must still wait. The reports must
// have ended for dead-after, and for longer after each repetition.
func (m *member) reportHold(in inputs) time.Duration {
	if !m.isReportedDrop(in) {
		return 0
	}
	endedAt := m.reportsEndedAt
	if m.reportedSince >= 0 {
		endedAt = in.now // the reports continue
	}
	drop, _ := in.state.Drop(m.id)
	return max(endedAt+in.timing.DeadAfter+ack.FlapPause(drop.ConsecutiveDrops)-in.now, 0)
}

// chooseUnreachable returns the member that the next map must exclude because most other members have reported it for
// longer than dead-after; empty means none. If there are several, it returns the one with the most reports. The next
// one follows after the commit, because its reports may be those of the first one. Less than half of the nodes that may
// own shards are excluded in this way: if more are unreachable, the network has failed and not the nodes.
func (ms *membership) chooseUnreachable(in inputs, nodes *memberTracker) shardmap.NodeID {
	if !ms.reports.anyReported {
		return ""
	}
	var chosen *member
	owners, excluded := 0, 0
	for id, node := range nodes.byID {
		isExcluded := node.isReportedDrop(in)
		switch {
		case isExcluded && in.state.Committed().IsMember(id):
			return "" // the open round excludes it
		case isExcluded && node.sendsHeartbeats(in) && !node.hasCrashed() && !node.isStopping():
			// Its current process may not be eligible again yet.
			owners++
			excluded++
		case !ms.mayOwnShards(in, node) || node.isHeldBack(in): // the next map does not contain it
		default:
			owners++
			if in.isMember(id) && node.isReportedFor(in, in.timing.DeadAfter) && ms.isReportedMore(node, chosen) {
				chosen = node
			}
		}
	}
	if chosen == nil || 2*(excluded+1) >= owners {
		return ""
	}
	return chosen.id
}

// isReportedMore reports whether more members report node than other, or as many and its id is lower. other may be
// nil.
func (ms *membership) isReportedMore(node, other *member) bool {
	if other == nil {
		return true
	}
	count, otherCount := ms.reports.counts[node.id], ms.reports.counts[other.id]
	return count > otherCount || count == otherCount && node.id < other.id
}

// reporters returns the members that report that they cannot connect to the node, ascending.
func (mt *memberTracker) reporters(in inputs, id shardmap.NodeID) (ids []shardmap.NodeID) {
	for _, node := range mt.byID {
		if node.id != id && slices.Contains(node.heartbeat.Unreachable, id) && node.mayReport(in) {
			ids = append(ids, node.id)
		}
	}
	slices.Sort(ids)
	return ids
}
