package leader

import (
	"slices"
	"time"

	"shardway/ack"
	"shardway/shardmap"
)

// heartbeatReceived handles a heartbeat. ok is false if it gets no response, for example because
// it does not name exactly the term of the leader (why 2).
func (l *Leader) heartbeatReceived(now time.Duration, heartbeat HeartbeatReceived) (ack.Answer, bool) {
	if heartbeat.Term != l.options.Term || l.leases.revoked {
		return ack.Answer{}, false
	}
	node := l.member(heartbeat.Node)
	if node.hasHeartbeat() && heartbeat.Boot < node.heartbeat.Boot {
		return l.refusal(heartbeat, node.refuseBoot(heartbeat)), true
	}
	if answer := l.refuseDuplicate(now, node, heartbeat); answer.Refusal != 0 {
		return l.refusal(heartbeat, answer), true
	}
	if node.hasHeartbeat() && heartbeat.Boot == node.heartbeat.Boot && heartbeat.Nonce != node.heartbeat.Nonce {
		// Messages that name this boot, like old evidence, could not distinguish the
		// two processes.
		return l.refusal(heartbeat, node.refuseBoot(heartbeat)), true
	}
	if heartbeat.Boot == node.heartbeat.Boot && heartbeat.Number <= node.heartbeat.Number {
		return ack.Answer{}, false // repeated or overtaken
	}
	if heartbeat.Boot != node.heartbeat.Boot {
		node.reset(now, heartbeat.Boot)
		node.noInitialEcho = heartbeat.Echo == ack.Echo{}
	}
	if !node.hasHeartbeat() || node.heartbeat.Zone != heartbeat.Zone || node.heartbeat.AcquiresNone != heartbeat.AcquiresNone || !slices.Equal(node.heartbeat.UnacquiredShards, heartbeat.UnacquiredShards) {
		l.inputsVersion++
	}
	if heartbeat.Goodbye && (!node.heartbeat.Goodbye || heartbeat.Boot != node.heartbeat.Boot) {
		node.restartTimes.goodbyeAt = now
	}
	node.heartbeat, node.addr, node.connClosed, node.lastHeartbeatAt = heartbeat.Heartbeat, heartbeat.From, false, now
	node.crashedBoot, node.crashedBeforeHeartbeat, node.removed = 0, false, false
	if heartbeat.Unhealthy {
		node.healthySince = -1
	} else if node.healthySince < 0 {
		node.healthySince = now
	}
	l.echoReceived(now, node)
	l.trackLag(now, node)
	return l.answerHeartbeat(now, node), true
}

// refuseBoot returns the refusal of a boot that is not above the known one. A wiped disk only
// needs a higher boot. The same disk counts its boots, so it was rolled back or copied.
func (n *member) refuseBoot(heartbeat HeartbeatReceived) ack.Answer {
	if heartbeat.Server == n.heartbeat.Server {
		return ack.Answer{Refusal: ack.RefusedRollback, KnownBoot: n.heartbeat.Boot}
	}
	return ack.Answer{Refusal: ack.RefusedBoot, KnownBoot: max(n.heartbeat.Boot, heartbeat.Boot+1)}
}

// refuseDuplicate refuses a second process under a node id (docs/internals/protocol.md). It
// does so until the connection of the first process is closed, or it has been silent for
// DeadAfter, and its lease has certainly expired. On another disk it also waits until the
// first process certainly runs nothing. A quickly restarted node only waits for the lease.
func (l *Leader) refuseDuplicate(now time.Duration, node *member, heartbeat HeartbeatReceived) ack.Answer {
	if !node.hasHeartbeat() || node.heartbeat.Nonce == heartbeat.Nonce || node.heartbeat.Goodbye {
		return ack.Answer{}
	}
	if gone := node.connClosed || node.hasCrashed() || now-node.lastHeartbeatAt > l.maxTiming.DeadAfter; !gone {
		l.emit(Event{Kind: EventDuplicate, Node: node.id, Reason: node.addr + " and " + heartbeat.From})
		return ack.Answer{Refusal: ack.RefusedDuplicate, KnownBoot: node.heartbeat.Boot, DuplicateAddr: node.addr}
	}
	if node.hadLease && now <= node.lastGrantAt+l.maxTiming.LeaseExpiry() || heartbeat.Server != node.heartbeat.Server && !l.processGone(now, node) {
		return ack.Answer{Refusal: ack.RefusedDuplicate, KnownBoot: node.heartbeat.Boot}
	}
	return ack.Answer{}
}

// processGone reports whether every process under the node id has stopped admitting and
// running requests. A new process on the same disk proves that the previous one has ended,
// because it holds the lock. A new process on another disk proves nothing, and would serve the
// same shards under the same epochs. So it must wait as long as a takeover of the shards.
func (l *Leader) processGone(now time.Duration, node *member) bool {
	sinceGrant := now - node.lastGrantAt
	return node.heartbeat.Goodbye || node.removed || sinceGrant >= l.maxTiming.DeadAfter ||
		node.hasCrashed() && l.maxTiming.Takeover != ack.TakeoverTimeout && sinceGrant > l.maxTiming.LeaseExpiry()
}

// refusal completes the response that refuses a heartbeat.
func (l *Leader) refusal(heartbeat HeartbeatReceived, answer ack.Answer) ack.Answer {
	answer.FormatVersion, answer.Term, answer.Boot, answer.HeartbeatNumber, answer.Epoch = heartbeat.FormatVersion, l.options.Term, heartbeat.Boot, heartbeat.Number, l.state.Proposed().Epoch()
	return answer
}

// echoReceived evaluates the echo in a heartbeat: the number of a response that the node received
// from this leader. The echo of a voter confirms the leader for a quorum (see leaseIssuer). A
// fresh echo also proves that both directions of the link work.
func (l *Leader) echoReceived(now time.Duration, node *member) {
	fresh := false
	if node.heartbeat.Echo.Term == l.options.Term {
		if at, ok := node.answerSentAt(node.heartbeat.Echo.Number); ok {
			node.echoedAnswerSentAt = max(node.echoedAnswerSentAt, at)
			l.leases.confirm(node.heartbeat.Server, at)
			fresh = now-at <= maxEchoAge(l.options.Pace)
		}
	}
	if !fresh {
		node.freshStreak = 0
		return
	}
	node.freshStreak++
	node.lastFreshEchoAt = now
}

// trackLag records when the log of the node fell behind (why 16).
func (l *Leader) trackLag(now time.Duration, node *member) {
	switch {
	case node.heartbeat.Applied >= l.state.Committed().Epoch():
		node.behindSince = -1
	case node.behindSince < 0:
		node.behindSince = max(now, l.committedMapSeenAt)
	}
}

// answerHeartbeat returns the response, with a lease if one may be granted. The caller must have
// stored the heartbeat before.
func (l *Leader) answerHeartbeat(now time.Duration, node *member) ack.Answer {
	l.lastAnswerNumber++
	answer := ack.Answer{
		FormatVersion: node.heartbeat.FormatVersion, Term: l.options.Term, Number: l.lastAnswerNumber, Boot: node.heartbeat.Boot, HeartbeatNumber: node.heartbeat.Number,
		Epoch: l.state.Proposed().Epoch(), OK: node.heartbeat.Acked == l.state.Proposed().Epoch(),
		MapUnchanged: l.isLeaving(node) && l.noOwnerRemains(now), ReleasesReceived: node.hasReleases(),
		RestartIndex: l.state.RestartsIndex(),
	}
	if l.mayGrantLease(now, node) {
		timing := l.timing()
		if answer.ServeFor = l.leases.grant(now, timing); answer.ServeFor > 0 {
			answer.AbortAfter, answer.LeaseDuration = answer.ServeFor+timing.AbortDelay(), timing.Lease
		}
	}
	if answer.ServeFor > 0 {
		node.hadLease, node.lastGrantAt = true, now
	}
	node.answerSent(now, l.lastAnswerNumber)
	return answer
}

// mayGrantLease reports whether the node may have a lease. The conditions are those of
// docs/internals/protocol-leases.md, "Leases".
func (l *Leader) mayGrantLease(now time.Duration, node *member) bool {
	if !l.barrierApplied || node.heartbeat.Goodbye || node.heartbeat.Gateway {
		return false
	}
	// From the step that submits the commit of p on, p must have been acknowledged.
	if requiredAck := max(l.state.Committed().Epoch(), l.committingEpoch); node.heartbeat.Acked < requiredAck || requiredAck == 0 {
		return false
	}
	// An excluded or removed node gets no lease until it has acknowledged that
	// proposal. Otherwise its shards could never be taken (why 14).
	if drop, ok := l.state.Drop(node.id); ok && drop.InForce && node.heartbeat.Acked < drop.Epoch || node.heartbeat.Acked < node.leaseDeniedUntil {
		return false
	}
	// A boot that has echoed no response may be a second process under this id, and the
	// first may still have a lease of the previous leader.
	if node.noInitialEcho && now-l.electedAt <= l.maxTiming.LeaseExpiry() && l.inheritedMap.ShardCount(node.id) > 0 {
		return false
	}
	if node.echoedAnswerSentAt < 0 || now-node.echoedAnswerSentAt > l.maxTiming.DeadAfter/2 {
		return false
	}
	quorumTime, ok := l.leases.quorumTime()
	return ok && (node.hadLease || quorumTime > node.firstHeartbeatAt)
}

// isLeaving reports whether its own process or an operator wants the node to own nothing.
func (l *Leader) isLeaving(node *member) bool {
	return node.heartbeat.Leaving || l.state.Policy().IsDraining(node.id)
}

// noOwnerRemains reports whether no node will own anything. Then the committed map remains
// (rule 10), and a leaving node need not wait.
func (l *Leader) noOwnerRemains(now time.Duration) bool {
	for _, node := range l.members {
		if l.isEligible(now, node) {
			return false
		}
	}
	for _, member := range l.state.Proposed().Members() {
		if l.isEligible(now, l.member(member.ID)) {
			return false
		}
	}
	return true
}

// hasAcked reports whether the present boot has acknowledged this proposal or a later proposal. Its
// releases may still be in transit, see hasCompleteAck.
func (n *member) hasAcked(epoch shardmap.Epoch) bool {
	return n.hasHeartbeat() && n.heartbeat.Acked >= epoch
}
