package agent

import (
	"time"

	"shardway/ack"
)

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
	return max(leaseLength/idleLeaseFraction, min(leaseLength/idleLeaseFractionNoRequests, leaseLength/4-maxPollDelay))
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
	if until, held := a.holder.LeaseEnd(); held {
		due = min(due, until, now+a.idleInterval(now))
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
	_, unanswered := a.holder.oldestUnanswered()
	_, hasLease := a.holder.LeaseEnd()
	return !unanswered && (hasLease || a.options.Gateway) && a.follower.Draining() == 0 && a.supersedingBoot == 0 && a.duplicateSince == 0 && a.stoppingSince == 0 &&
		(a.hooks == nil || !a.hooks.inputsChanged && !a.hooks.awaitsConfirmation())
}

// AdvanceHeartbeat makes the next Poll send a heartbeat if half of the heartbeat interval has
// passed and the heartbeat is due within maxAdvance. The caller uses it when it receives or sends a
// Raft message. Node and leader then wake up once for both messages instead of twice.
func (a *Agent) AdvanceHeartbeat(now, maxAdvance time.Duration) {
	if a.nextHeartbeat-now <= min(a.options.Pace.Heartbeat/2-a.broughtForward, maxAdvance) {
		a.nextHeartbeat = 0
	}
}

// CoalesceHeartbeat makes the next Poll send a heartbeat, and postpones the heartbeat after it by a
// tenth of the interval. The node of the leader calls it when the first of several heartbeats
// of other nodes arrives, to send its own heartbeat in the same wake-up. Because of the delay,
// those heartbeats also arrive first in the next interval. Otherwise the node would send one
// heartbeat on its own schedule and another one with theirs.
func (a *Agent) CoalesceHeartbeat() { a.nextHeartbeat, a.postponeNext = 0, a.options.Pace.Heartbeat/10 }

// alignHeartbeat sends the next heartbeat earlier if the last lease was based on older echoes
// than necessary. An echo is the number of a response that a voter repeats in its heartbeat, and
// a lease counts from the newest answer that a quorum has echoed. If four followers send their
// heartbeats at nearly the same time, the first one always gets a lease that is based on the
// echoes of the previous interval. When its next heartbeat is due, only 200 ms of that lease
// remain, which is too little to survive a leader failure.
//
// So this node sends earlier than the others, by half of the excess each time, until its leases
// are based on echoes that are at most a third of the heartbeat interval old. With two or three
// voters the decisive echo is usually that of the heartbeat itself, so no heartbeat moves. If a
// quorum requires nearly all live voters, the nodes may find no such order. They then send a
// fifth more heartbeats.
func (a *Agent) alignHeartbeat(answer ack.Answer) {
	interval := a.options.Pace.Heartbeat
	if excessAge := answer.LeaseDuration - answer.ServeFor - interval*4/3; answer.ServeFor > 0 && excessAge > 0 && answer.HeartbeatNumber == a.holder.lastNumber {
		advance := min(excessAge/2, interval/4)
		a.nextHeartbeat -= advance - a.broughtForward // repeated answers to one heartbeat move it only once
		a.broughtForward = advance
	}
}
