package leader

import (
	"slices"
	"time"

	"shardway/ack"
	"shardway/shardmap"
)

// heartbeatReceived handles a heartbeat. ok is false if it gets no response, for example because
// it does not name exactly the term of the leader (why 2).
func (l *Leader) heartbeatReceived(now time.Duration, m HeartbeatReceived) (ack.Answer, bool) {
	if m.Term != l.options.Term || l.leases.revoked {
		return ack.Answer{}, false
	}
	n := l.member(m.Node)
	if n.hasHeartbeat() && m.Boot < n.heartbeat.Boot {
		return l.refusal(m, n.refuseBoot(m)), true
	}
	if a := l.refuseDuplicate(now, n, m); a.Refusal != 0 {
		return l.refusal(m, a), true
	}
	if n.hasHeartbeat() && m.Boot == n.heartbeat.Boot && m.Nonce != n.heartbeat.Nonce {
		// Messages that name this boot, like old evidence, could not distinguish the
		// two processes.
		return l.refusal(m, n.refuseBoot(m)), true
	}
	if m.Boot == n.heartbeat.Boot && m.Number <= n.heartbeat.Number {
		return ack.Answer{}, false // repeated or overtaken
	}
	if m.Boot != n.heartbeat.Boot {
		n.reset(now, m.Boot)
		n.noInitialEcho = m.Echo == ack.Echo{}
	}
	if !n.hasHeartbeat() || n.heartbeat.Zone != m.Zone || n.heartbeat.AcquiresNone != m.AcquiresNone || !slices.Equal(n.heartbeat.UnacquiredShards, m.UnacquiredShards) {
		l.inputsVersion++
	}
	if m.Goodbye && (!n.heartbeat.Goodbye || m.Boot != n.heartbeat.Boot) {
		n.restart.goodbyeAt = now
	}
	n.heartbeat, n.addr, n.connClosed, n.lastHeartbeatAt = m.Heartbeat, m.From, false, now
	n.crashedBoot, n.crashedBeforeHeartbeat, n.removed = 0, false, false
	if m.Unhealthy {
		n.healthySince = -1
	} else if n.healthySince < 0 {
		n.healthySince = now
	}
	l.echoReceived(now, n)
	l.trackLag(now, n)
	return l.answerHeartbeat(now, n), true
}

// refuseBoot returns the refusal of a boot that is not above the known one. A wiped disk only
// needs a higher boot. The same disk counts its boots, so it was rolled back or copied.
func (n *member) refuseBoot(m HeartbeatReceived) ack.Answer {
	if m.Server == n.heartbeat.Server {
		return ack.Answer{Refusal: ack.RefusedRollback, KnownBoot: n.heartbeat.Boot}
	}
	return ack.Answer{Refusal: ack.RefusedBoot, KnownBoot: max(n.heartbeat.Boot, m.Boot+1)}
}

// refuseDuplicate refuses a second process under a node id (docs/internals/protocol.md). It
// does so until the connection of the first process is closed, or it has been silent for
// DeadAfter, and its lease has certainly expired. On another disk it also waits until the
// first process certainly runs nothing. A quickly restarted node only waits for the lease.
func (l *Leader) refuseDuplicate(now time.Duration, n *member, m HeartbeatReceived) ack.Answer {
	if !n.hasHeartbeat() || n.heartbeat.Nonce == m.Nonce || n.heartbeat.Goodbye {
		return ack.Answer{}
	}
	if gone := n.connClosed || n.hasCrashed() || now-n.lastHeartbeatAt > l.maxTiming.DeadAfter; !gone {
		l.emit(Event{Kind: EventDuplicate, Node: n.id, Reason: n.addr + " and " + m.From})
		return ack.Answer{Refusal: ack.RefusedDuplicate, KnownBoot: n.heartbeat.Boot, DuplicateAddr: n.addr}
	}
	if n.hadLease && now <= n.lastGrantAt+l.maxTiming.LeaseExpiry() || m.Server != n.heartbeat.Server && !l.processGone(now, n) {
		return ack.Answer{Refusal: ack.RefusedDuplicate, KnownBoot: n.heartbeat.Boot}
	}
	return ack.Answer{}
}

// processGone reports whether every process under the node id has stopped admitting and
// running requests. A new process on the same disk proves that the previous one has ended,
// because it holds the lock. A new process on another disk proves nothing, and would serve the
// same shards under the same epochs. So it must wait as long as a takeover of the shards.
func (l *Leader) processGone(now time.Duration, n *member) bool {
	sinceGrant := now - n.lastGrantAt
	return n.heartbeat.Goodbye || n.removed || sinceGrant >= l.maxTiming.DeadAfter ||
		n.hasCrashed() && l.maxTiming.Takeover != ack.TakeoverTimeout && sinceGrant > l.maxTiming.LeaseExpiry()
}

// refusal completes the response that refuses a heartbeat.
func (l *Leader) refusal(m HeartbeatReceived, a ack.Answer) ack.Answer {
	a.FormatVersion, a.Term, a.Boot, a.HeartbeatNumber, a.Epoch = m.FormatVersion, l.options.Term, m.Boot, m.Number, l.state.Proposed().Epoch()
	return a
}

// echoReceived evaluates the echo in a heartbeat: the number of a response that the node received
// from this leader. The echo of a voter confirms the leader for a quorum (see leaseIssuer). A
// fresh echo also proves that both directions of the link work.
func (l *Leader) echoReceived(now time.Duration, n *member) {
	fresh := false
	if n.heartbeat.Echo.Term == l.options.Term {
		if at, ok := n.answerSentAt(n.heartbeat.Echo.Number); ok {
			n.echoedAnswerSentAt = max(n.echoedAnswerSentAt, at)
			l.leases.confirm(n.heartbeat.Server, at)
			fresh = now-at <= maxEchoAge(l.options.Pace)
		}
	}
	if !fresh {
		n.freshStreak = 0
		return
	}
	n.freshStreak++
	n.lastFreshEchoAt = now
}

// trackLag records when the log of the node fell behind (why 16).
func (l *Leader) trackLag(now time.Duration, n *member) {
	switch {
	case n.heartbeat.Applied >= l.state.Committed().Epoch():
		n.behindSince = -1
	case n.behindSince < 0:
		n.behindSince = max(now, l.committedAt)
	}
}

// answerHeartbeat returns the response, with a lease if one may be granted. The caller must have
// stored the heartbeat before.
func (l *Leader) answerHeartbeat(now time.Duration, n *member) ack.Answer {
	l.answerCount++
	a := ack.Answer{
		FormatVersion: n.heartbeat.FormatVersion, Term: l.options.Term, Number: l.answerCount, Boot: n.heartbeat.Boot, HeartbeatNumber: n.heartbeat.Number,
		Epoch: l.state.Proposed().Epoch(), OK: n.heartbeat.Acked == l.state.Proposed().Epoch(),
		MapUnchanged: l.isLeaving(n) && l.noOwnerRemains(now), ReleasesReceived: n.hasReleases(),
		RestartIndex: l.state.RestartsIndex(),
	}
	if l.mayGrantLease(now, n) {
		t := l.timing()
		if a.ServeFor = l.leases.grant(now, t); a.ServeFor > 0 {
			a.AbortAfter, a.LeaseDuration = a.ServeFor+t.AbortDelay(), t.Lease
		}
	}
	if a.ServeFor > 0 {
		n.hadLease, n.lastGrantAt = true, now
	}
	n.answerSent(now, l.answerCount)
	return a
}

// mayGrantLease reports whether the node may have a lease. The conditions are those of
// docs/internals/protocol-leases.md, "Leases".
func (l *Leader) mayGrantLease(now time.Duration, n *member) bool {
	if !l.barrierApplied || n.heartbeat.Goodbye || n.heartbeat.Gateway {
		return false
	}
	// From the step that submits the commit of p on, p must have been acknowledged.
	if need := max(l.state.Committed().Epoch(), l.committing); n.heartbeat.Acked < need || need == 0 {
		return false
	}
	// An excluded or removed node gets no lease until it has acknowledged that
	// proposal. Otherwise its shards could never be taken (why 14).
	if d, ok := l.state.Drop(n.id); ok && d.InForce && n.heartbeat.Acked < d.Epoch || n.heartbeat.Acked < n.leaseDeniedUntil {
		return false
	}
	// A boot that has echoed no response may be a second process under this id, and the
	// first may still have a lease of the previous leader.
	if n.noInitialEcho && now-l.electedAt <= l.maxTiming.LeaseExpiry() && l.inheritedMap.Count(n.id) > 0 {
		return false
	}
	if n.echoedAnswerSentAt < 0 || now-n.echoedAnswerSentAt > l.maxTiming.DeadAfter/2 {
		return false
	}
	q, ok := l.leases.quorumTime()
	return ok && (n.hadLease || q > n.firstHeartbeatAt)
}

// isLeaving reports whether its own process or an operator wants the node to own nothing.
func (l *Leader) isLeaving(n *member) bool {
	return n.heartbeat.Leaving || l.state.Policy().IsDraining(n.id)
}

// noOwnerRemains reports whether no node will own anything. Then the committed map remains
// (rule 10), and a leaving node need not wait.
func (l *Leader) noOwnerRemains(now time.Duration) bool {
	for _, n := range l.members {
		if l.isEligible(now, n) {
			return false
		}
	}
	for _, m := range l.state.Proposed().Members() {
		if l.isEligible(now, l.member(m.ID)) {
			return false
		}
	}
	return true
}

// hasAcked reports whether the present boot has acknowledged e or a later proposal. Its
// releases may still be in transit, see hasCompleteAck.
func (n *member) hasAcked(e shardmap.Epoch) bool { return n.hasHeartbeat() && n.heartbeat.Acked >= e }
