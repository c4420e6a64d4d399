package leader

import "time"

// Due returns how long the caller may wait with the next Tick if no message arrives.
func (d *Driver) Due() time.Duration {
	now := d.options.Clock()
	due := d.leader.nextStepAt(now)
	if d.barrierDue >= 0 {
		due = min(due, d.barrierDue)
	}
	return due - now
}

// nextStepAt returns when the next step is due. While anything is in progress, a step is due
// every 10 ms. An idle leader is due when a member would become silent, and at least once in a
// heartbeat interval, because excuseStall treats longer gaps as stalls.
func (l *Leader) nextStepAt(now time.Duration) time.Duration {
	if !l.isIdle(now) {
		return now
	}
	due := now + l.options.Pace.Heartbeat
	for _, member := range l.state.Proposed().Members() {
		node := l.member(member.ID)
		due = min(due, max(node.lastFreshEchoAt, node.firstHeartbeatAt)+maxEchoAge(l.options.Pace)+1)
	}
	return due
}

// isIdle reports whether the last map is committed, no other is needed, and every member sends
// heartbeats.
func (l *Leader) isIdle(now time.Duration) bool {
	if !l.barrierApplied || l.entryInFlight || !l.ownRoundCommitted || l.state.HasOpenProposal() || l.changeWantedSince >= 0 || len(l.policyQueue) > 0 || l.leases.revoked || now < l.pausedUntil {
		return false
	}
	for _, member := range l.state.Proposed().Members() {
		node := l.member(member.ID)
		if !node.hasHeartbeat() || node.hasCrashed() || node.removed || node.behindSince >= 0 || l.isRestarting(node) {
			return false
		}
	}
	return true
}
