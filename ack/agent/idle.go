package agent

import "time"

const (
	// A gap of lease/pauseLeaseDivisor between two polls counts as a pause of the process. It voids
	// the lease (see LeaseHolder.Tick).
	pauseLeaseDivisor = 4
	// An idle agent with recent requests polls at least every lease/idleLeaseDivisor. That interval
	// is far below lease/pauseLeaseDivisor, because a poll may run late.
	idleLeaseDivisor = 10
	// Without recent requests, the agent polls at least every lease/quietLeaseDivisor, which saves
	// wake-ups. On a busy machine, the lease may then be voided by mistake, but this affects no
	// request.
	quietLeaseDivisor = 5
	// maxPollDelay is the longest expected delay of a scheduled poll. Callers check every 10 ms
	// whether a poll is due, rounding up.
	maxPollDelay = 20 * time.Millisecond
	// recentRequestHeartbeats is the number of heartbeat intervals for which a request counts as
	// recent.
	recentRequestHeartbeats = 10
)

// idleInterval returns the maximum time between two polls while the agent is idle and holds a lease.
func (a *Agent) idleInterval(now time.Duration) time.Duration {
	leaseLength := a.holder.leaseLength
	if now-a.lastRequestAt < recentRequestHeartbeats*a.options.Pace.Heartbeat {
		return leaseLength / idleLeaseDivisor
	}
	pauseLimit := leaseLength/pauseLeaseDivisor - maxPollDelay // a later poll would look like a pause of the process
	interval := min(leaseLength/quietLeaseDivisor, pauseLimit)
	return max(interval, leaseLength/idleLeaseDivisor)
}

// Due returns when the next Poll is due without a new event. It may be in the past. While the agent is
// not idle (see isIdle), Due returns now. Callers check every 10 ms whether a Poll is due, so the agent
// is then polled every 10 ms. The next Poll of an idle agent is due with the next heartbeat, at the end
// of its lease, or after idleInterval, whichever is first.
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
// is unanswered. The last condition is needed because election.Suspicion is polled together with the
// agent: without frequent polls it would detect a failed leader late. The condition costs little,
// because a response arrives within a millisecond.
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
