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
	due := now + l.in.pace.Heartbeat
	for _, member := range l.in.state.Proposed().Members() {
		silentAt := l.members.getOrCreate(member.ID).lastProofAt() + maxEchoAge(l.in.pace) + 1
		due = min(due, silentAt)
	}
	return due
}

// isIdle reports whether the last map is committed, no other is needed, and every member sends
// heartbeats.
func (l *Leader) isIdle(now time.Duration) bool {
	if !l.leases.barrierApplied() || l.leases.revoked || now < l.pausedUntil {
		return false
	}
	if !l.ownRoundCommitted || l.in.state.HasOpenProposal() || l.changeWantedSince >= 0 {
		return false
	}
	if l.pending.exists() || len(l.policyQueue.requests) > 0 {
		return false
	}
	for _, member := range l.in.state.Proposed().Members() {
		node := l.members.getOrCreate(member.ID)
		mayBeGone := !node.hasHeartbeat() || node.hasCrashed() || node.removed
		if mayBeGone || node.behindSince >= 0 || l.in.isRestarting(node) {
			return false
		}
	}
	return true
}
