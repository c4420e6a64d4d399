package leader

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"shardway/ack"
	"shardway/shardmap"
)

// membership decides which nodes may be in the next map, and why a node may not.
type membership struct {
	health   clusterAppHealth
	services serviceRunners
	reports  peerReports
	// unreachable is the member that the next map must exclude because most other members cannot connect to it; empty
	// means none.
	unreachable shardmap.NodeID
	// allOwnersHeldBack is set if the only nodes that may own shards are held back because their
	// apps became unhealthy repeatedly. They may own shards immediately then.
	allOwnersHeldBack bool
	// roundStartedAt is when the open proposal of this term was applied.
	roundStartedAt time.Duration
	// dropSeenAt is when a proposal that excluded the node was applied in this term.
	dropSeenAt map[shardmap.NodeID]time.Duration
	// uncordoned are the nodes whose drain or mark as failed ended in this term, until they own shards.
	uncordoned map[shardmap.NodeID]bool
}

func newMembership() membership {
	return membership{dropSeenAt: map[shardmap.NodeID]time.Duration{}}
}

// applyProposal starts the round of a proposal that the log now contains.
func (ms *membership) applyProposal(in inputs, nodes *memberTracker) {
	ms.roundStartedAt = in.now
	for _, id := range in.state.DroppedBy(in.state.Proposed().Epoch()) {
		ms.dropSeenAt[id] = in.now
		// Heartbeats from before the drop do not make it eligible.
		nodes.getOrCreate(id).freshEchoCount = 0
	}
}

// applyCommit forgets the uncordoned nodes that own shards in the new committed map.
func (ms *membership) applyCommit(committed *shardmap.Map) {
	maps.DeleteFunc(ms.uncordoned, func(id shardmap.NodeID, _ bool) bool { return committed.ShardCount(id) > 0 })
}

// applyPolicy records the nodes whose drain or mark as failed a new policy has ended.
func (ms *membership) applyPolicy(before, after *ack.Policy) {
	for id := range before.Drained {
		if _, _, isInstance := shardmap.ParseInstance(id); !isInstance && !after.Drained[id] {
			setKey(&ms.uncordoned, id, true)
		}
	}
	for id := range before.MarkedFailed {
		if !after.MarkedFailed[id] {
			setKey(&ms.uncordoned, id, true)
		}
	}
	// A node that drains or is marked again is no longer uncordoned.
	maps.DeleteFunc(ms.uncordoned, func(id shardmap.NodeID, _ bool) bool { return after.IsDraining(id) || after.MarkedFailed[id] })
}

// updateHealth updates the health of the apps and the reports about unreachable nodes. The caller must
// call it once in each step, before other decisions.
func (ms *membership) updateHealth(in inputs, nodes *memberTracker) {
	nodes.addMembersOf(in.state.Proposed())
	ms.health.update(in, nodes, func(node *member) (app appStatus, runs bool) { return nodeAppStatus(in, node), true })
	ms.services.update(in, nodes)
	ms.reports.update(in, nodes)
	ms.unreachable = "" // chooseUnreachable reads it
	ms.unreachable = ms.chooseUnreachable(in, nodes)
	ms.allOwnersHeldBack = nodes.anyHeldBack(in) && !ms.hasAvailableOwner(in, nodes)
}

// hasAvailableOwner reports whether any node may own shards immediately.
func (ms *membership) hasAvailableOwner(in inputs, nodes *memberTracker) bool {
	for _, node := range nodes.byID {
		if !node.isHeldBack(in) && ms.mayOwnShards(in, node) {
			return true
		}
	}
	return false
}

// mayOwnShards reports whether the node may own shards in the next map, except if it is held back.
func (ms *membership) mayOwnShards(in inputs, node *member) bool {
	if in.isRestarting(node) || in.state.Policy().DrainsGradually(node.id) {
		return false
	}
	return ms.isEligibleIgnoringFlaps(in, node)
}

// isEligible reports whether the node may be in the next map. A node whose app became unhealthy
// repeatedly must wait, and so must a node that other members could not reach, unless no other node may
// own shards.
func (ms *membership) isEligible(in inputs, node *member) bool {
	return ms.isEligibleIgnoringFlaps(in, node) && (ms.allOwnersHeldBack || !node.isHeldBack(in))
}

// isAppUnhealthy reports whether the node may own no shards because its app is unhealthy. If there are
// several services, this applies to the apps of all services that the node runs.
func (ms *membership) isAppUnhealthy(in inputs, node *member) bool {
	if ms.services.inUse {
		return ms.services.excludesNode(in, node)
	}
	return ms.health.excludes(nodeAppStatus(in, node))
}

// isEligibleIgnoringFlaps is isEligible for a node whose app did not become unhealthy repeatedly.
func (ms *membership) isEligibleIgnoringFlaps(in inputs, node *member) bool {
	if node.removed || node.hasCrashed() || node.isStopping() || node.heartbeat.Gateway || in.isMarkedFailed(node) {
		return false
	}
	if ms.isAppUnhealthy(in, node) || ms.exclusionCause(in, node) != 0 {
		return false
	}
	if node.isDrained(in) {
		return false
	}
	// A drop is the record of an exclusion in the log. It is in force until a proposal contains
	// the node again (rule 3).
	drop, _ := in.state.Drop(node.id)
	switch {
	case drop.InForce && drop.Cause.MissedRound():
		return ms.mayReturnAfterMiss(in, node, drop)
	case drop.InForce || !in.isMember(node.id):
		return node.mayJoin(in)
	case !node.hasHeartbeat():
		// An election alone must not move shards (rule 4). See reason 18 of protocol-reasons.md.
		return in.isNewLeader()
	}
	return !node.isSilent(in)
}

// mayReturnAfterMiss reports whether a node may return that was excluded because it missed a round.
// It must have acknowledged the proposal that excluded it, and wait for the pause after repeated
// misses (rule 3).
func (ms *membership) mayReturnAfterMiss(in inputs, node *member, drop ack.Drop) bool {
	hasAcked := node.hasAcked(drop.Epoch) && node.hasAcked(in.state.Committed().Epoch())
	return hasAcked && !node.isSilent(in) && in.now-ms.droppedAt(in, node.id) >= ack.FlapPause(drop.ConsecutiveDrops)
}

// droppedAt returns when this leader saw that the node was excluded. A new leader does not know the
// time of an earlier exclusion, and uses the time of its election.
func (ms *membership) droppedAt(in inputs, id shardmap.NodeID) time.Duration {
	if at, ok := ms.dropSeenAt[id]; ok {
		return at
	}
	return in.electedAt
}

// exclusionCause returns why a member of the last map must be dropped although the leader
// receives its heartbeats; zero if it need not.
func (ms *membership) exclusionCause(in inputs, node *member) ack.DropCause {
	if !in.isMember(node.id) {
		return 0
	}
	if node.removed {
		return ack.CauseRemoved
	}
	if in.isMarkedFailed(node) {
		return ack.CauseMarkedFailed
	}
	if in.isRestarting(node) || !node.sendsHeartbeats(in) || node.hasCrashed() {
		return 0
	}
	if ms.missedAckDeadline(in, node) {
		return ack.CauseMissedAck
	}
	behindSince := max(node.behindSince, node.restartTimes.endedAt)
	if node.behindSince >= 0 && in.now-behindSince > in.pace.AckDeadline() {
		return ack.CauseBehind
	}
	if node.id == ms.unreachable {
		return ack.CauseUnreachable
	}
	return 0
}

// missedAckDeadline reports whether the node has not acknowledged the open proposal in time.
func (ms *membership) missedAckDeadline(in inputs, node *member) bool {
	waitingSince := max(ms.roundStartedAt, node.restartTimes.endedAt)
	return in.ownRoundOpen() && in.now-waitingSince > node.ackDeadline(in.pace) && !node.hasCompleteAck(in.state.Proposed().Epoch())
}

// isResponsive reports whether a member is expected to acknowledge a proposal soon.
func (ms *membership) isResponsive(in inputs, node *member) bool {
	if !node.sendsHeartbeats(in) || node.heartbeat.Goodbye || node.hasCrashed() {
		return false
	}
	return !node.removed && !in.isMarkedFailed(node) && !in.isRestarting(node) && ms.exclusionCause(in, node) == 0
}

// isReliable reports whether a node is a live member with a lease and a healthy app, as far as the
// leader knows.
func (ms *membership) isReliable(in inputs, node *member) bool {
	drop, _ := in.state.Drop(node.id)
	if drop.InForce || node.isHeldBack(in) || ms.exclusionCause(in, node) != 0 {
		return false
	}
	if node.removed || in.isMarkedFailed(node) || node.hasCrashed() || in.isRestarting(node) {
		return false
	}
	if !node.hasHeartbeat() {
		// A new leader must not move shards only because it has no heartbeat yet.
		return in.isNewLeader()
	}
	if node.isSilent(in) || node.heartbeat.Unhealthy || node.heartbeat.Goodbye || node.heartbeat.Gateway {
		return false
	}
	// Shortly after an election, an owner may not have a lease of this leader yet.
	return in.isNewLeader() || node.hadLease && node.hasAcked(in.state.Committed().Epoch())
}

// noOwnerRemains reports whether no node will own anything. Then the committed map remains
// (rule 10), and a leaving node need not wait.
func (ms *membership) noOwnerRemains(in inputs, nodes *memberTracker) bool {
	nodes.addMembersOf(in.state.Proposed())
	for _, node := range nodes.byID {
		if ms.isEligible(in, node) {
			return false
		}
	}
	return true
}

// denyLateLeases denies leases to owners that the open proposal excludes without a drop (they
// leave, or their app is unhealthy) or because other members cannot reach them, and that do not
// acknowledge it in time. Otherwise the round would wait for them forever. An owner that an operator marks as
// failed during such a round gets no more time, because the operator expects no acknowledgement.
func (ms *membership) denyLateLeases(in inputs, nodes *memberTracker) {
	if !in.ownRoundOpen() {
		return
	}
	last := in.state.Proposed()
	for _, owner := range in.state.Committed().Members() {
		node := nodes.getOrCreate(owner.ID)
		isLate := in.now-ms.roundStartedAt > node.ackDeadline(in.pace) || in.isMarkedFailed(node)
		if isLate && !last.IsMember(owner.ID) && !node.hasCompleteAck(last.Epoch()) {
			node.leaseDeniedUntil = last.Epoch()
		}
	}
}

// exclusionReason returns why a node must not be a member, as metrics spell it.
func (ms *membership) exclusionReason(in inputs, node *member) string {
	if cause := ms.exclusionCause(in, node); cause != 0 {
		return cause.String()
	}
	switch {
	case node.hasCrashed():
		return ack.CauseCrashed.String()
	case node.isStopping():
		return "leave"
	case ms.isAppUnhealthy(in, node):
		return "app-unhealthy"
	case node.isDrained(in):
		return "drain"
	}
	return ack.CauseSilent.String()
}

// joinReason returns why a node gets its first shards, as metrics spell it. The next leader does
// not know about an uncordoned node, so the reason there is "join".
func (ms *membership) joinReason(id shardmap.NodeID) string {
	if ms.uncordoned[id] {
		return "uncordon"
	}
	return "join"
}

// dropRecords returns records of the nodes that the proposal drops, ordered by id. These are
// members of the committed map or of the last proposal. Nodes that leave, are drained or have an
// unhealthy app are excluded without a drop.
func (ms *membership) dropRecords(in inputs, nodes *memberTracker, proposal *shardmap.Map) []ack.DropRecord {
	causes := map[shardmap.NodeID]ack.DropCause{}
	for _, member := range slices.Concat(in.state.Committed().Members(), in.state.Proposed().Members()) {
		if !proposal.IsMember(member.ID) {
			causes[member.ID] = ms.dropCause(in, nodes.getOrCreate(member.ID))
		}
	}
	var records []ack.DropRecord
	for _, id := range slices.Sorted(maps.Keys(causes)) {
		if cause := causes[id]; cause != 0 {
			records = append(records, ack.DropRecord{Node: id, Cause: cause, ConsecutiveDrops: ms.countConsecutiveDrops(in, id, cause)})
		}
	}
	return records
}

// dropCause returns why a node that the next proposal excludes is dropped; zero means without a
// drop.
func (ms *membership) dropCause(in inputs, node *member) ack.DropCause {
	if cause := ms.exclusionCause(in, node); cause != 0 {
		return cause
	}
	if drop, _ := in.state.Drop(node.id); drop.InForce {
		// Already dropped for the same cause: keep the record, because its epoch is
		// the proposal that the node must acknowledge.
		return 0
	}
	if node.hasCrashed() {
		return ack.CauseCrashed
	}
	// A drained node can be excluded before enough time has passed to call it silent.
	isSilent := node.hasHeartbeat() && node.isSilent(in)
	neverSeen := !node.hasHeartbeat() && !in.isNewLeader()
	if isSilent || neverSeen {
		return ack.CauseSilent
	}
	return 0
}

// countConsecutiveDrops counts drops for a repeatable cause that follow each other within ack.FlapWindow.
func (ms *membership) countConsecutiveDrops(in inputs, id shardmap.NodeID, cause ack.DropCause) uint32 {
	drop, wasDropped := in.state.Drop(id)
	if !cause.IsRepeatable() {
		return drop.ConsecutiveDrops
	}
	if !wasDropped || in.now-ms.droppedAt(in, id) > ack.FlapWindow {
		return 1
	}
	return drop.ConsecutiveDrops + 1
}

// weightedMember returns the member of the next map, with its weight and its app instances. The last
// known ones of a node count while it restarts or has not sent a heartbeat in this term.
func weightedMember(in inputs, node *member) shardmap.Member {
	weight := node.heartbeat.Weight
	if in.isRestarting(node) || !node.hasHeartbeat() {
		previous, _ := findMember(in.state.Proposed(), node.id)
		weight = previous.Weight
	}
	return shardmap.Member{ID: node.id, Weight: weight, Instances: node.healthyInstances(in)}
}

// appendMembers appends the members of the next map to buf, ordered by id: the nodes that may own
// shards, and the nodes that restart in place. It appends nothing if no node may get shards.
func (ms *membership) appendMembers(buf []shardmap.Member, in inputs, nodes *memberTracker) []shardmap.Member {
	nodes.addMembersOf(in.state.Proposed())
	members, ownerExists := buf, false
	for id, node := range nodes.byID {
		restarting := in.isRestarting(node)
		if !restarting && !ms.isEligible(in, node) {
			continue
		}
		if !restarting && !in.state.Policy().DrainsGradually(id) {
			ownerExists = true
		}
		members = append(members, weightedMember(in, node))
	}
	if !ownerExists {
		members = members[:0]
	}
	slices.SortFunc(members, func(a, b shardmap.Member) int { return cmp.Compare(a.ID, b.ID) })
	return members
}
