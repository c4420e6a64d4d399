package leader

import (
	"slices"
	"time"

	"shardway/ack"
	"shardway/shardmap"
)

// maxResponses is the number of responses to each node that a leader remembers. It sends one
// response for each heartbeat, and an echo of a response older than a few heartbeats proves
// nothing, so 64 is more than enough.
const maxResponses = 64

// member contains the data of a leader about one node, all received in its own term. A boot (also
// incarnation) is the number of a process of the node: each process has a higher one.
type member struct {
	id shardmap.NodeID

	// The last heartbeat.

	heartbeat       ack.Heartbeat // the newest of the current boot; Boot zero means none in this term
	addr            string        // the address that sent it
	connClosed      bool          // its connection broke, and no heartbeat has arrived since
	lastHeartbeatAt time.Duration // when it arrived
	wasSilent       bool          // for EventNodeUnresponsive and EventNodeRecovered

	// The current boot.

	firstHeartbeatAt time.Duration // when its first heartbeat arrived
	rebooted         bool          // it replaced another boot in this term
	noInitialEcho    bool          // its first heartbeat echoed no response
	// healthySince is the time at which its app became healthy; negative means that the app is not healthy.
	healthySince time.Duration
	// behindSince is the time at which its applied epoch fell below the committed one; negative means that it is
	// not below.
	behindSince time.Duration

	// Echoes of responses, which prove that both directions of the link work.

	sentResponses        [maxResponses]sentResponse
	responseCount        uint64        // number of responses sent to the node
	echoedResponseSentAt time.Duration // when the newest echoed response was sent; negative means none
	lastFreshEchoAt      time.Duration // when a heartbeat last echoed a recent response
	freshEchoCount       int           // number of consecutive heartbeats that echoed a recent response

	// Leases.

	hadLease    bool          // the current boot has had a lease
	lastGrantAt time.Duration // of any boot; initially the election
	// leaseDeniedUntil is the epoch of a proposal that excludes the node; zero means none. The node gets no lease
	// before it has acknowledged this proposal. Otherwise it could renew its lease forever, and the round would wait
	// for it forever: without an acknowledgement, other nodes may take its shards only after its lease has ended.
	leaseDeniedUntil shardmap.Epoch

	// Signs that the process has exited. Any heartbeat voids them.

	crashedBoot            uint64 // the boot that crash evidence names; zero means none
	crashedBeforeHeartbeat bool   // the crash evidence came before any heartbeat of this term
	crashSeenAt            time.Duration
	removed                bool // an operator has stated that the node has stopped permanently

	// Failures that other nodes have noticed. Each is negative while no such sign exists.

	// reportedSince is the time from which on most other members report that they cannot connect to the node.
	reportedSince time.Duration
	// reportsEndedAt is the time at which these reports ended; initially the time of the election.
	reportsEndedAt time.Duration
	wasReported    bool          // for EventNodeUnreachable and EventNodeReachable
	gossipFailedAt time.Duration // when gossip reported to this leader that the node failed or left
	silentAt       time.Duration // when this leader noticed its silence

	// Restarts in place, and the releases of the app.

	restartTimes   restartTimes
	releases       *ack.Releases // the newest that arrived; nil means none
	releasesDigest [32]byte      // of releases
}

// sentResponse is the number of a response, and when it was sent.
type sentResponse struct {
	number uint64
	sentAt time.Duration
}

// hasHeartbeat reports whether the node has sent a heartbeat in the term of this leader.
func (m *member) hasHeartbeat() bool { return m.heartbeat.Boot != 0 }

// healthyInstances returns the app instances that have not failed. While the node restarts or has not
// sent a heartbeat in this term, those of the last map count. The map does not contain drained
// instances. They count as well, because nothing shows that they have failed.
func (m *member) healthyInstances(in inputs) shardmap.InstanceSet {
	if m.hasHeartbeat() && !in.isRestarting(m) {
		return m.heartbeat.Instances
	}
	last, isMember := findMember(in.state.Proposed(), m.id)
	if !isMember {
		last, _ = findMember(in.state.Committed(), m.id)
	}
	instances := last.Instances
	for id := range in.state.Policy().Drained {
		if node, instance, isNamed := shardmap.ParseInstance(id); isNamed && node == m.id {
			instances = instances.With(instance)
		}
	}
	return instances
}

// isDrained reports whether the node or each of its app instances that have not failed is drained.
func (m *member) isDrained(in inputs) bool {
	policy := in.state.Policy()
	return len(policy.Drained) > 0 && policy.DrainsAll(m.id, m.healthyInstances(in))
}

// isSilent reports whether no recent heartbeat proves that both directions of the link work. A
// new boot gets the same time for its first proof.
func (m *member) isSilent(in inputs) bool {
	return in.now-m.lastProofAt() > maxEchoAge(in.pace)
}

// lastProofAt returns from when on the silence of the node counts.
func (m *member) lastProofAt() time.Duration { return max(m.lastFreshEchoAt, m.firstHeartbeatAt) }

// sendsHeartbeats reports whether the node has sent heartbeats in this term, and is not silent.
func (m *member) sendsHeartbeats(in inputs) bool { return m.hasHeartbeat() && !m.isSilent(in) }

// linkWorks reports whether the node has recently proved that it receives the responses of this
// leader. A node with a first heartbeat only is not silent yet, but has proved nothing.
func (m *member) linkWorks(in inputs) bool {
	return m.freshEchoCount >= requiredFreshEchoes && m.sendsHeartbeats(in)
}

// hasCrashed reports whether there is evidence that the current process of the node has exited.
// Before the first heartbeat of this term, the evidence may be about the last process before the
// election of this leader.
func (m *member) hasCrashed() bool {
	return m.crashedBeforeHeartbeat || m.crashedBoot != 0 && m.crashedBoot >= m.heartbeat.Boot
}

// isStopping reports whether the process has announced that it leaves, or has said goodbye.
func (m *member) isStopping() bool { return m.heartbeat.Leaving || m.heartbeat.Goodbye }

// hasAcked reports whether the current process has acknowledged the proposal of this epoch or a
// later proposal. The releases of its app may still be in transit, see hasCompleteAck.
func (m *member) hasAcked(epoch shardmap.Epoch) bool {
	return m.hasHeartbeat() && m.heartbeat.Acked >= epoch
}

// ackDeadline returns how long the node may take to acknowledge a proposal. A node with hooks gets
// the additional time that it reports.
func (m *member) ackDeadline(pace ack.Pace) time.Duration {
	return pace.AckDeadline() + m.heartbeat.ReleaseTime
}

// hasFreshLease reports whether the node got a lease recently, so it may serve now.
func (m *member) hasFreshLease(in inputs) bool {
	return m.hadLease && in.now-m.lastGrantAt <= in.timing.Lease
}

// canServe reports whether a node could serve shards immediately because it has a lease. The first
// lease of a boot takes one or two heartbeats longer than the other conditions of eligibility.
// A member of the committed map owns its shards already, and before the first map there are no
// leases.
func (m *member) canServe(in inputs) bool {
	committed := in.state.Committed()
	return m.hasFreshLease(in) || committed.IsMember(m.id) || committed.Epoch() == 0
}

// mayJoin reports whether a node outside the map may get shards: its link works, it has a lease,
// and it has acknowledged the committed map (rule 3).
func (m *member) mayJoin(in inputs) bool {
	linkWorks := m.freshEchoCount >= requiredFreshEchoes && !m.isSilent(in)
	return linkWorks && m.canServe(in) && m.hasAcked(in.state.Committed().Epoch())
}

// storeHeartbeat stores a heartbeat of the node, possibly of a new process.
func (m *member) storeHeartbeat(now time.Duration, received HeartbeatReceived) {
	isNewProcess := received.Boot != m.heartbeat.Boot
	if isNewProcess {
		m.reset(now, received.Boot)
		m.noInitialEcho = received.Echo == ack.Echo{}
	}
	if received.Goodbye && (isNewProcess || !m.heartbeat.Goodbye) {
		m.restartTimes.goodbyeAt = now
	}
	m.heartbeat, m.addr = received.Heartbeat, received.From
	m.lastHeartbeatAt, m.connClosed = now, false
	// A heartbeat refutes crash evidence and the statement of an operator.
	m.crashedBoot, m.crashedBeforeHeartbeat, m.removed = 0, false, false
	if received.Unhealthy {
		m.healthySince = -1
	} else if m.healthySince < 0 {
		m.healthySince = now
	}
}

// reset forgets the data of an earlier boot or process. It keeps lastGrantAt, because the lease of
// that process may still run. Only a higher boot proves that the earlier process has exited,
// because the new process holds the lock of the same data directory.
func (m *member) reset(now time.Duration, boot uint64) {
	m.rebooted = m.hasHeartbeat() && boot > m.heartbeat.Boot
	m.firstHeartbeatAt, m.freshEchoCount, m.echoedResponseSentAt = now, 0, -1
	m.hadLease = false
	m.behindSince = -1
	m.forgetPeerReports(now)
	m.gossipFailedAt = -1
	m.sentResponses = [maxResponses]sentResponse{}
}

// evaluateEcho evaluates the echo in the last heartbeat: the number of a response that the node
// received from this leader. It returns when that response was sent. ok is false if the echo
// proves nothing. A fresh echo also proves that both directions of the link work.
func (m *member) evaluateEcho(in inputs) (sentAt time.Duration, ok bool) {
	isFresh := false
	if m.heartbeat.Echo.Term == in.term {
		if sentAt, ok = m.responseSentAt(m.heartbeat.Echo.Number); ok {
			m.echoedResponseSentAt = max(m.echoedResponseSentAt, sentAt)
			isFresh = in.now-sentAt <= maxEchoAge(in.pace)
		}
	}
	if !isFresh {
		m.freshEchoCount = 0
		return sentAt, ok
	}
	m.freshEchoCount++
	m.lastFreshEchoAt = in.now
	return sentAt, ok
}

// trackLag records since when the log of the node lacks the committed map. A node that never applies
// the map must be excluded, because otherwise no node would serve the shards that the node gained.
func (m *member) trackLag(in inputs, committedMapSeenAt time.Duration) {
	isBehind := m.heartbeat.Applied < in.state.Committed().Epoch()
	switch {
	case !isBehind:
		m.behindSince = -1
	case m.behindSince < 0:
		m.behindSince = max(in.now, committedMapSeenAt)
	}
}

// recordResponse records a response to the node. Response numbers are unique in a term, so that the
// echo of a response to one node is never valid for another node. Each node has its own list of
// responses, so a large cluster does not shorten the list.
func (m *member) recordResponse(now time.Duration, number uint64) {
	m.sentResponses[m.responseCount%maxResponses] = sentResponse{number, now}
	m.responseCount++
}

// responseSentAt returns when the response with this number was sent. ok is false if it was never
// sent, or is too old.
func (m *member) responseSentAt(number uint64) (at time.Duration, ok bool) {
	for _, sent := range m.sentResponses {
		if number != 0 && sent.number == number {
			return sent.sentAt, true
		}
	}
	return 0, false
}

// excuseStall shifts the start of the node's silence and lag by the time for which the leader itself
// stalled; see Leader.excuseStall.
func (m *member) excuseStall(now, stall time.Duration) {
	m.lastFreshEchoAt = min(m.lastProofAt()+stall, now)
	if m.behindSince >= 0 {
		m.behindSince = min(m.behindSince+stall, now)
	}
	if m.reportedSince >= 0 {
		m.reportedSince = min(m.reportedSince+stall, now)
	}
	m.reportsEndedAt = min(m.reportsEndedAt+stall, now)
}

// memberTracker contains the data of a leader about all nodes.
type memberTracker struct {
	electedAt time.Duration // when the leader was elected
	byID      map[shardmap.NodeID]*member
	// reportsVersion counts changes of the reports in heartbeats that influence the placement of
	// shards: zones, roles and acquire failures.
	reportsVersion uint64
}

func newMemberTracker(electedAt time.Duration) memberTracker {
	return memberTracker{electedAt: electedAt, byID: map[shardmap.NodeID]*member{}}
}

// getOrCreate returns the member with the given id, and creates it if necessary.
func (mt *memberTracker) getOrCreate(id shardmap.NodeID) *member {
	node := mt.byID[id]
	if node == nil {
		node = &member{
			id: id, lastGrantAt: mt.electedAt, lastFreshEchoAt: mt.electedAt, echoedResponseSentAt: -1, behindSince: -1, healthySince: -1,
			reportedSince: -1, reportsEndedAt: mt.electedAt, gossipFailedAt: -1, silentAt: -1,
			restartTimes: restartTimes{firstSeenAt: mt.electedAt},
		}
		mt.byID[id] = node
	}
	return node
}

// addMembersOf creates the members of the map that do not exist yet.
func (mt *memberTracker) addMembersOf(shards *shardmap.Map) {
	for _, member := range shards.Members() {
		mt.getOrCreate(member.ID)
	}
}

// storeHeartbeat stores a heartbeat of the node.
func (mt *memberTracker) storeHeartbeat(now time.Duration, node *member, received HeartbeatReceived) {
	old := node.heartbeat
	labelsChanged := !node.hasHeartbeat() || old.Zone != received.Zone || !slices.Equal(old.Roles, received.Roles)
	failuresChanged := old.AcquiresNone != received.AcquiresNone || !slices.Equal(old.UnacquiredShards, received.UnacquiredShards)
	if labelsChanged || failuresChanged {
		mt.reportsVersion++
	}
	node.storeHeartbeat(now, received)
}

// zones returns the zones of the nodes that have sent a heartbeat in this term. reportsVersion
// changes when the result does.
func (mt *memberTracker) zones() map[shardmap.NodeID]string {
	zones := map[shardmap.NodeID]string{}
	for id, node := range mt.byID {
		if node.hasHeartbeat() {
			zones[id] = node.heartbeat.Zone
		}
	}
	return zones
}

// restartingNodes returns the nodes that restart in place.
func (mt *memberTracker) restartingNodes(in inputs) map[shardmap.NodeID]bool {
	var ids map[shardmap.NodeID]bool
	for id := range in.state.Restarts() {
		if in.isRestarting(mt.getOrCreate(id)) {
			setKey(&ids, id, true)
		}
	}
	return ids
}
