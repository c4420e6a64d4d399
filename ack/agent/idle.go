package agent

import "time"

const (
	// An idle agent with recent requests polls at least every 1/idleLeaseFraction of a lease.
	// The interval must be far below a quarter lease: a poll may run late, and a gap of a
	// quarter lease counts as a process pause, which voids the lease (see LeaseHolder.Tick).
	//
	// Without recent requests the fraction is 1/idleLeaseFractionNoRequests, which saves
	// wake-ups. On a busy machine the lease may then be voided by mistake, but no request is
	// affected by that.
	idleLeaseFraction           = 10
	idleLeaseFractionNoRequests = 5
	// maxPollDelay is the longest expected delay of a scheduled poll. Callers check every 10 ms
	// whether a poll is due, and round times up.
	maxPollDelay = 20 * time.Millisecond
	// requestHeartbeats is the number of heartbeat intervals for which a request counts as
	// recent.
	requestHeartbeats = 10
)

// idleInterval returns the maximum time between two polls of an idle agent with a lease.
func (a *Agent) idleInterval(now time.Duration) time.Duration {
	leaseLength := a.holder.leaseLength
	if now-a.lastRequestAt < requestHeartbeats*a.options.Pace.Heartbeat {
		return leaseLength / idleLeaseFraction
	}
	pauseLimit := leaseLength/4 - maxPollDelay // a later poll would look like a pause of the process
	interval := min(leaseLength/idleLeaseFractionNoRequests, pauseLimit)
	return max(interval, leaseLength/idleLeaseFraction)
}

// Due returns when the next Poll is due without a new event. It may be in the past. While
// anything is in progress, a Poll is due every 10 ms. An idle agent has a lease and no drain,
// hook call or unanswered heartbeat. Its next Poll is due with the next heartbeat, and earlier
// with recent requests (see idleInterval).
func (a *Agent) Due(now time.Duration) time.Duration {
	if !a.isIdle() {
		return now
	}
	due := a.nextHeartbeat
	if leaseEnd, hasLease := a.holder.LeaseEnd(); hasLease {
		due = min(due, leaseEnd, now+a.idleInterval(now))
	}
	if a.hooks != nil {
		due = min(due, a.hooks.nextUpdateAt)
	}
	return due
}

// isIdle reports whether no drain, hook call, restart or stop is in progress, and no heartbeat
// is unanswered. The last condition costs little, because a response arrives within a
// millisecond. Without it, election.Suspicion would detect a failed leader late: it is polled
// together with the agent.
func (a *Agent) isIdle() bool {
	if _, unanswered := a.holder.oldestUnanswered(); unanswered {
		return false
	}
	if _, hasLease := a.holder.LeaseEnd(); !hasLease && !a.options.Gateway {
		return false
	}
	isReplaced := a.supersedingBoot != 0 || a.duplicateSince != 0
	isStopping := a.stoppingSince != 0
	if a.follower.Draining() != 0 || isReplaced || isStopping {
		return false
	}
	return a.hooks == nil || !a.hooks.inputsChanged && !a.hooks.delivery.awaitsConfirmation()
}

// AdvanceHeartbeat makes the next Poll send a heartbeat if half of the heartbeat interval has
// passed and the heartbeat is due within maxAdvance. The caller uses it when it receives or sends a
// Raft message. Node and leader then wake up once for both messages instead of twice.
func (a *Agent) AdvanceHeartbeat(now, maxAdvance time.Duration) {
	advance := a.nextHeartbeat - now
	if advance <= min(a.options.Pace.Heartbeat/2, maxAdvance) {
		a.nextHeartbeat = 0
	}
}
