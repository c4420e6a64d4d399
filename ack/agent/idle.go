package agent

import (
	"time"

	"shardway/ack"
)

const (
	// An idle agent with recent requests polls at least every 1/idleLeaseFraction of a lease.
	// A gap of a quarter lease counts as a process pause (see Holder.Tick), and a scheduled
	// poll may run late.
	//
	// idleLeaseFractionNoRequests applies without recent requests. Polls then run later than
	// would be safe on a busy machine, but no request waits for a lease that is voided.
	idleLeaseFraction           = 10
	idleLeaseFractionNoRequests = 5
	// maxPollDelay is the expected delay of a scheduled poll: callers check every 10 ms, and
	// round up.
	maxPollDelay = 20 * time.Millisecond
	// requestHeartbeats is for how many heartbeats a request counts as recent.
	requestHeartbeats = 10
)

// idleInterval returns how long an idle agent with a lease may skip polls.
func (a *Agent) idleInterval(now time.Duration) time.Duration {
	whole := a.holder.leaseLength
	if now-a.lastRequestAt < requestHeartbeats*a.o.Pace.Heartbeat {
		return whole / idleLeaseFraction
	}
	return max(whole/idleLeaseFraction, min(whole/idleLeaseFractionNoRequests, whole/4-maxPollDelay))
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
	if until, held := a.holder.Until(); held {
		due = min(due, until, now+a.idleInterval(now))
	}
	if a.hooks != nil {
		due = min(due, a.hooks.nextDue)
	}
	return due
}

// isIdle reports whether nothing is in progress. An agent with an unanswered heartbeat is not
// idle: election.Suspicion depends on its polls, and an answer arrives within a millisecond.
func (a *Agent) isIdle() bool {
	_, waits := a.holder.oldestUnanswered()
	_, held := a.holder.Until()
	return !waits && (held || a.o.Gateway) && a.follower.Draining() == 0 && a.rebootAbove == 0 && a.duplicateSince == 0 && a.stoppingSince == 0 &&
		(a.hooks == nil || !a.hooks.dirty && !a.hooks.pending())
}

// HeartbeatEarly makes the next Poll send a heartbeat if half of the interval has passed, and
// it is due within most. The caller is awake anyway, because it received or sends a Raft
// message. Node and leader then wake up once instead of twice.
func (a *Agent) HeartbeatEarly(now, most time.Duration) {
	if a.nextHeartbeat-now <= min(a.o.Pace.Heartbeat/2-a.broughtForward, most) {
		a.nextHeartbeat = 0
	}
}

// HeartbeatWith makes the next Poll send a heartbeat, and postpones the following one by a
// tenth of the interval. A leader calls it at the first of several heartbeats that arrive
// together. In the next interval their heartbeats arrive first again, so the leader does not
// send two.
func (a *Agent) HeartbeatWith() { a.nextHeartbeat, a.postponeNext = 0, a.o.Pace.Heartbeat/10 }

// alignHeartbeat sends the next heartbeat earlier if the last grant was based on older echoes
// than necessary. A lease counts from the echo last confirmed by a quorum. If four followers
// send at nearly the same time, the first is always granted a lease by the echoes of the
// previous interval. Only 200 ms of its lease then remain when its next heartbeat is due,
// which is too little to survive a leader failure.
//
// So this node moves ahead of the others, by half of the excess each time, until its grants
// are based on echoes of at most a third of the heartbeat interval. With two or three voters
// the decisive echo is usually that of the heartbeat itself, so nothing moves. If a quorum
// requires nearly all live voters, the nodes may find no such order, and send a fifth more
// heartbeats.
func (a *Agent) alignHeartbeat(ans ack.Answer) {
	every := a.o.Pace.Heartbeat
	if old := ans.Lease - ans.Serve - every*4/3; ans.Serve > 0 && old > 0 && ans.Beat == a.holder.lastNumber {
		near := min(old/2, every/4)
		a.nextHeartbeat -= near - a.broughtForward // once for repeated answers
		a.broughtForward = near
	}
}
