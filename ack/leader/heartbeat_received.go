package leader

import (
	"shardway/ack"
	"shardway/shardmap"
)

// handleHeartbeat stores a heartbeat and returns the response. ok is false if the heartbeat gets no response, for
// example because it names another term than that of the leader (see reason 2 of docs/internals/protocol-reasons.md).
func (l *Leader) handleHeartbeat(received HeartbeatReceived) (answer ack.Answer, ok bool) {
	if received.Term != l.in.term || l.leases.revoked {
		return ack.Answer{}, false
	}
	node := l.members.getOrCreate(received.Node)
	if refusal := l.refuse(node, received); refusal.Refusal != 0 {
		refusal.FormatVersion, refusal.Term, refusal.Epoch = received.FormatVersion, l.in.term, l.in.state.Proposed().Epoch()
		refusal.Boot, refusal.HeartbeatNumber = received.Boot, received.Number
		return refusal, true
	}
	if received.Boot == node.heartbeat.Boot && received.Number <= node.heartbeat.Number {
		return ack.Answer{}, false // repeated or overtaken
	}
	if !l.in.state.FormatVersion().HasInstances() { // the node may have applied the next format version earlier
		received.OmitInstances()
	}
	if !l.in.state.FormatVersion().HasPeerReports() {
		received.Unreachable = nil
	}
	if !l.in.state.FormatVersion().HasServices() {
		received.OmitServices()
	}
	l.members.storeHeartbeat(l.in.now, node, received)
	if sentAt, isProof := node.evaluateEcho(l.in); isProof {
		l.leases.confirm(node.heartbeat.Server, sentAt)
	}
	node.trackLag(l.in, l.committedMapSeenAt)
	return l.answerHeartbeat(node), true
}

// refuse returns the refusal of a heartbeat. Refusal zero means that the leader accepts it.
func (l *Leader) refuse(node *member, received HeartbeatReceived) ack.Answer {
	if node.hasHeartbeat() && received.Boot < node.heartbeat.Boot {
		return node.refuseBoot(received)
	}
	refusal, otherIsAlive := node.refuseDuplicate(l.in, received)
	if otherIsAlive {
		l.emit(Event{Kind: EventDuplicate, Node: node.id, Reason: node.addr + " and " + received.From})
	}
	if refusal.Refusal != 0 {
		return refusal
	}
	if node.hasHeartbeat() && received.Boot == node.heartbeat.Boot && received.Nonce != node.heartbeat.Nonce {
		// Messages that name this boot, like old evidence, could not distinguish the
		// two processes.
		return node.refuseBoot(received)
	}
	return ack.Answer{}
}

// refuseBoot returns the refusal of a process whose boot, the number of its incarnation, is not
// above the known one. A process on a wiped disk only needs a higher boot. The same disk counts its
// boots, so it was rolled back or copied.
func (m *member) refuseBoot(received HeartbeatReceived) ack.Answer {
	if received.Server == m.heartbeat.Server {
		return ack.Answer{Refusal: ack.RefusedRollback, KnownBoot: m.heartbeat.Boot}
	}
	return ack.Answer{Refusal: ack.RefusedBoot, KnownBoot: max(m.heartbeat.Boot, received.Boot+1)}
}

// refuseDuplicate returns the refusal of a second process under a node id
// (docs/internals/protocol-failures.md). It refuses the process until the connection of the first
// process is closed, or it has been silent for DeadAfter, and its lease has certainly expired. On
// another disk it also waits until the first process certainly runs nothing. A quickly restarted
// node only waits for the lease. Refusal zero means no refusal, and otherIsAlive that the first
// process probably still runs.
func (m *member) refuseDuplicate(in inputs, received HeartbeatReceived) (refusal ack.Answer, otherIsAlive bool) {
	if !m.hasHeartbeat() || m.heartbeat.Nonce == received.Nonce || m.heartbeat.Goodbye {
		return ack.Answer{}, false
	}
	refusal = ack.Answer{Refusal: ack.RefusedDuplicate, KnownBoot: m.heartbeat.Boot}
	seemsGone := m.connClosed || m.hasCrashed() || in.now-m.lastHeartbeatAt > in.timing.DeadAfter
	if !seemsGone {
		refusal.DuplicateAddr = m.addr
		return refusal, true
	}
	leaseMayRun := m.hadLease && in.now <= m.lastGrantAt+in.timing.LeaseExpiry()
	isOtherDisk := received.Server != m.heartbeat.Server
	if leaseMayRun || isOtherDisk && !m.processGone(in) {
		return refusal, false
	}
	return ack.Answer{}, false
}

// answerHeartbeat returns the response, with a lease if one may be granted. The caller must already
// have stored the heartbeat.
func (l *Leader) answerHeartbeat(node *member) ack.Answer {
	l.lastResponseNumber++
	epoch := l.in.state.Proposed().Epoch()
	answer := ack.Answer{
		FormatVersion: node.heartbeat.FormatVersion,
		Term:          l.in.term, Number: l.lastResponseNumber,
		Boot: node.heartbeat.Boot, HeartbeatNumber: node.heartbeat.Number,
		Epoch: epoch, OK: node.heartbeat.Acked == epoch,
		MapUnchanged:     node.isLeaving(l.in) && l.membership.noOwnerRemains(l.in, &l.members),
		ReleasesReceived: node.hasReleases(),
		RestartIndex:     l.in.state.RestartsIndex(),
	}
	if l.leases.mayGrant(l.in, node, l.pending.commitEpoch) {
		timing := l.timings.grantTiming(l.in.state)
		answer.ServeFor = l.leases.grant(l.in.now, timing)
		if answer.ServeFor > 0 {
			answer.AbortAfter, answer.LeaseDuration = answer.ServeFor+timing.AbortDelay(), timing.Lease
			node.hadLease, node.lastGrantAt = true, l.in.now
		}
	}
	node.recordResponse(l.in.now, l.lastResponseNumber)
	return answer
}

// isLeaving reports whether its own process or an operator wants the node to own nothing.
func (m *member) isLeaving(in inputs) bool {
	return m.heartbeat.Leaving || in.state.Policy().IsDraining(m.id)
}

// findMember returns the member with the given id.
func findMember(from *shardmap.Map, id shardmap.NodeID) (shardmap.Member, bool) {
	for _, member := range from.Members() {
		if member.ID == id {
			return member, true
		}
	}
	return shardmap.Member{}, false
}
