package ack

import "time"

// restShare is the part of a lease that an agent at rest lets pass without a look. A
// quarter is taken for a pause of the process (see Holder.Tick), and a look that is due may
// come late: later than idleShare bears on a busy machine, where nobody asks for anything and
// so nobody waits for the lease that is void then.
const (
	idleLeaseFraction           = 10
	idleLeaseFractionNoRequests = 5
	// lateLook is how late a look may be where nothing is wrong: what it is asked of beats every
	// 10 ms at most, and rounds.
	maxPollDelay = 20 * time.Millisecond
	// askedFor is for how many heartbeats requests count that have come.
	requestHeartbeats = 10
)

// rest is for how long an agent at rest with a lease need not look.
func (a *Agent) idleInterval(now time.Duration) time.Duration {
	whole := a.holder.leaseLength
	if now-a.lastRequestAt < requestHeartbeats*a.o.Pace.Heartbeat {
		return whole / idleLeaseFraction
	}
	return max(whole/idleLeaseFraction, min(whole/idleLeaseFractionNoRequests, whole/4-maxPollDelay))
}

// Due returns when the next Look is due if nothing happens before that: every 10 ms while
// anything is under way, and at rest, which is with a lease, nothing to drain, to tell the
// app or to wait for, when the next heartbeat is, or half-way to it while requests come or have
// just come. It may be past.
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

// rests reports that nothing is under way. Who waits for an answer does not rest: that is
// how a leader is found to be missed (see Doubt), and one comes within a millisecond.
func (a *Agent) isIdle() bool {
	_, waits := a.holder.oldestUnanswered()
	_, held := a.holder.Until()
	return !waits && (held || a.o.Gateway) && a.follower.Draining() == 0 && a.rebootAbove == 0 && a.duplicateSince == 0 && a.stoppingSince == 0 &&
		(a.hooks == nil || !a.hooks.dirty && !a.hooks.pending())
}

// HeartbeatEarly makes the next Look send a heartbeat if no more than most is left until it is due,
// and half of the time between two has passed: for who is awake anyway, as a leader was heard,
// or speaks itself. So both sides wake once for what each would else wake for at a time of its own.
func (a *Agent) HeartbeatEarly(now, most time.Duration) {
	if a.nextHeartbeat-now <= min(a.o.Pace.Heartbeat/2-a.broughtForward, most) {
		a.nextHeartbeat = 0
	}
}

// HeartbeatWith makes the next Look send a heartbeat, and the one after it be due a tenth later than it
// would: for a leader, as it hears the first of other voters that beat together. The next time it
// hears them first again, and does not beat twice.
func (a *Agent) HeartbeatWith() { a.nextHeartbeat, a.postponeNext = 0, a.o.Pace.Heartbeat/10 }

// drawNear has the next heartbeat leave sooner if the last one was granted a lease by older
// echoes than need be. A lease counts from the echo that a quorum gave last, and of four
// followers that beat within a moment the first is always given one by those of the time
// before: it has 200 ms left as the next is due, and when its leader hangs then, it ends
// before another leads. So that one moves away from those behind it, by half of what is too
// much, until nobody is given less than from a third of the time between two heartbeats. Of two
// or three voters the echo that counts is as a rule the heartbeat's own. Where a quorum takes
// nearly all that live they may not find such times, and beat a fifth more often.
func (a *Agent) alignHeartbeat(ans Answer) {
	every := a.o.Pace.Heartbeat
	if old := ans.Lease - ans.Serve - every*4/3; ans.Serve > 0 && old > 0 && ans.Beat == a.holder.lastNumber {
		near := min(old/2, every/4)
		a.nextHeartbeat -= near - a.broughtForward // once, however often the answer comes
		a.broughtForward = near
	}
}

// Due returns within what time a Tick is due if no message comes before that.
func (d *LeaderDriver) Due() time.Duration {
	now := d.o.Clock()
	due := d.leader.nextStepAt(now)
	if d.barrierDue >= 0 {
		due = min(due, d.barrierDue)
	}
	return due - now
}

// due returns when the leader has to be stepped next: every 10 ms while anything is under
// way, and else when a node would be silent that is heard now, or in a heartbeat, for what may
// last a while: it lets pass for nobody's silence what it was not stepped in beyond that.
func (l *Leader) nextStepAt(now time.Duration) time.Duration {
	if !l.isIdle(now) {
		return now
	}
	due := now + l.o.Pace.Heartbeat
	for _, m := range l.state.Last().Members() {
		n := l.member(m.ID)
		due = min(due, max(n.lastFreshEcho, n.firstHeard)+l.o.Pace.freshness()+1)
	}
	return due
}

// rests reports that the last map routes, nobody wants another one, and all its members
// are heard.
func (l *Leader) isIdle(now time.Duration) bool {
	if !l.barrierApplied || l.submitting || !l.roundDone || l.state.Open() || l.changeWantedSince >= 0 || len(l.policyQueue) > 0 || l.leases.revoked || now < l.resumeAt {
		return false
	}
	for _, m := range l.state.Last().Members() {
		n := l.member(m.ID)
		if !n.heard() || n.crashed() || n.removed || n.behindSince >= 0 || l.isRestarting(n) {
			return false
		}
	}
	return true
}
