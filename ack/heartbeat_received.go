package ack

import (
	"slices"
	"time"

	"shardway/shardmap"
)

// heard takes a heartbeat and answers it; false: not at all. That is what becomes of
// one that does not name exactly the own term (why 2).
func (l *Leader) heartbeatReceived(now time.Duration, m HeartbeatReceived) (Answer, bool) {
	if m.Term != l.o.Term || l.leases.revoked {
		return Answer{}, false
	}
	n := l.member(m.Node)
	if n.heard() && m.Boot < n.heartbeat.Boot {
		return l.refusal(m, n.refuseBoot(m)), true
	}
	if a := l.refuseDuplicate(now, n, m); a.Refusal != 0 {
		return l.refusal(m, a), true
	}
	if n.heard() && m.Boot == n.heartbeat.Boot && m.Nonce != n.heartbeat.Nonce {
		// What names this boot (old evidence, for one) would not tell the two
		// processes apart.
		return l.refusal(m, n.refuseBoot(m)), true
	}
	if m.Boot == n.heartbeat.Boot && m.Number <= n.heartbeat.Number {
		return Answer{}, false // repeated or overtaken
	}
	if m.Boot != n.heartbeat.Boot {
		n.reset(now, m.Boot)
		n.noInitialEcho = m.Echo == Echo{}
	}
	if !n.heard() || n.heartbeat.Zone != m.Zone || n.heartbeat.Unable != m.Unable || !slices.Equal(n.heartbeat.Unacquired, m.Unacquired) {
		l.inputsVersion++
	}
	if m.Goodbye && (!n.heartbeat.Goodbye || m.Boot != n.heartbeat.Boot) {
		n.restart.goodbyeAt = now
	}
	n.heartbeat, n.addr, n.closed, n.lastHeard = m.Heartbeat, m.From, false, now
	n.crashedBoot, n.crashedUnheard, n.removed = 0, false, false
	if m.Unhealthy {
		n.healthySince = -1
	} else if n.healthySince < 0 {
		n.healthySince = now
	}
	l.echoReceived(now, n)
	l.trackLag(now, n)
	return l.answerHeartbeat(now, n), true
}

// lower tells how to refuse a boot that is not above the one that was heard. On
// another disk, one that was emptied, it only has to be raised. The same disk
// counts its boots, so it has gone back or there are two of it.
func (n *member) refuseBoot(m HeartbeatReceived) Answer {
	if m.Server == n.heartbeat.Server {
		return Answer{Refusal: RefusedRollback, Known: n.heartbeat.Boot}
	}
	return Answer{Refusal: RefusedBoot, Known: max(n.heartbeat.Boot, m.Boot+1)}
}

// elsewhere refuses a second process under a node's id (docs/internals/protocol.md) until
// the first one's connection is gone, or it has been silent for DeadAfter, and
// its lease has certainly run out; on another disk, until the first one certainly
// runs nothing either. A quick restart meets only the lease.
func (l *Leader) refuseDuplicate(now time.Duration, n *member, m HeartbeatReceived) Answer {
	if !n.heard() || n.heartbeat.Nonce == m.Nonce || n.heartbeat.Goodbye {
		return Answer{}
	}
	if gone := n.closed || n.crashed() || now-n.lastHeard > l.maxTiming.DeadAfter; !gone {
		l.emit(Event{Kind: EventDuplicate, Node: n.id, Reason: n.addr + " and " + m.From})
		return Answer{Refusal: RefusedDuplicate, Known: n.heartbeat.Boot, Elsewhere: n.addr}
	}
	if n.hadLease && now <= n.lastGrant+l.maxTiming.leaseEnd() || m.Server != n.heartbeat.Server && !l.processGone(now, n) {
		return Answer{Refusal: RefusedDuplicate, Known: n.heartbeat.Boot}
	}
	return Answer{}
}

// over reports that no process under the node's name admits or runs anything any
// more. A new process on the same disk shows that the one before has ended, for it
// holds the lock; one on another disk shows nothing, and it would run the same
// shards under the same epochs. So it waits as one does who takes them.
func (l *Leader) processGone(now time.Duration, n *member) bool {
	sinceGrant := now - n.lastGrant
	return n.heartbeat.Goodbye || n.removed || sinceGrant >= l.maxTiming.DeadAfter ||
		n.crashed() && l.maxTiming.Fence != FenceStrict && sinceGrant > l.maxTiming.leaseEnd()
}

func (l *Leader) refusal(m HeartbeatReceived, a Answer) Answer {
	a.Level, a.Term, a.Boot, a.Beat, a.Epoch = m.Level, l.o.Term, m.Boot, m.Number, l.state.Last().Epoch()
	return a
}

// echoed takes the confirmation that the heartbeat brings, and judges the link.
func (l *Leader) echoReceived(now time.Duration, n *member) {
	fresh := false
	if n.heartbeat.Echo.Term == l.o.Term {
		if at, ok := n.answerSentAt(n.heartbeat.Echo.Number); ok {
			n.echoedAt = max(n.echoedAt, at)
			l.leases.confirm(n.heartbeat.Server, at)
			fresh = now-at <= l.o.Pace.freshness()
		}
	}
	if !fresh {
		n.freshStreak = 0
		return
	}
	n.freshStreak++
	n.lastFreshEcho = now
}

// follows notes since when the node's log has been behind (why 16).
func (l *Leader) trackLag(now time.Duration, n *member) {
	switch {
	case n.heartbeat.Applied >= l.state.Committed().Epoch():
		n.behindSince = -1
	case n.behindSince < 0:
		n.behindSince = max(now, l.committedAt)
	}
}

// answer grants what may be granted. It must come after the acknowledgement of
// the heartbeat was taken.
func (l *Leader) answerHeartbeat(now time.Duration, n *member) Answer {
	l.answerCount++
	a := Answer{
		Level: n.heartbeat.Level, Term: l.o.Term, Number: l.answerCount, Boot: n.heartbeat.Boot, Beat: n.heartbeat.Number,
		Epoch: l.state.Last().Epoch(), OK: n.heartbeat.Acked == l.state.Last().Epoch(),
		MapStays: l.isLeaving(n) && l.noOwnerRemains(now), Taken: n.hasReleases(),
		RestartIndex: l.state.restartsIndex,
	}
	if l.mayGrantLease(now, n) {
		t := l.timing()
		if a.Serve = l.leases.grant(now, t); a.Serve > 0 {
			a.Cut, a.Lease = a.Serve+t.CutAfter(), t.Lease
		}
	}
	if a.Serve > 0 {
		n.hadLease, n.lastGrant = true, now
	}
	n.answerSent(now, l.answerCount)
	return a
}

// mayServe reports whether the node may have a lease at all. Each
// line is one of the conditions of docs/internals/protocol.md, "Leases and detection".
func (l *Leader) mayGrantLease(now time.Duration, n *member) bool {
	if !l.barrierApplied || n.heartbeat.Goodbye || n.heartbeat.Gateway {
		return false
	}
	// From the step that submits Commit(p) on, p must have been acknowledged.
	if need := max(l.state.Committed().Epoch(), l.committing); n.heartbeat.Acked < need || need == 0 {
		return false
	}
	// A node left out gets nothing until it has acknowledged that: else its
	// shards could never be taken (why 14). One that an operator removed, too.
	if d, ok := l.state.Drop(n.id); ok && d.InForce && n.heartbeat.Acked < d.Epoch || n.heartbeat.Acked < n.leaseDeniedUntil {
		return false
	}
	// Who shows no answer at all may be a second process under this name, and the
	// first may still have a lease of the leader before.
	if n.noInitialEcho && now-l.elected <= l.maxTiming.leaseEnd() && l.inherited.Count(n.id) > 0 {
		return false
	}
	if n.echoedAt < 0 || now-n.echoedAt > l.maxTiming.DeadAfter/2 {
		return false
	}
	q, ok := l.leases.quorumTime()
	return ok && (n.hadLease || q > n.firstHeard)
}

// asksToLeave reports that a node is asked to own nothing: by its own process or by an operator.
func (l *Leader) isLeaving(n *member) bool {
	return n.heartbeat.Leaving || l.state.Policy().Leaves(n.id)
}

// nobodyStays reports that no member of the map that routes will own anything:
// then that map stays (rule 10) and a leaving node need not wait.
func (l *Leader) noOwnerRemains(now time.Duration) bool {
	for _, n := range l.members {
		if l.eligible(now, n) {
			return false
		}
	}
	for _, m := range l.state.Last().Members() {
		if l.eligible(now, l.member(m.ID)) {
			return false
		}
	}
	return true
}

// acked reports whether the node's present boot has acknowledged e or a later
// proposal. What it gives up shards with may be under way yet, see counts.
func (n *member) hasAcked(e shardmap.Epoch) bool { return n.heard() && n.heartbeat.Acked >= e }
