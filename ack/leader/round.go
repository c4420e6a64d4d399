package leader

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"shardway/ack"
	"shardway/shardmap"
)

// reconcile advances the round: the change from one committed map to the next, which consists of a
// proposal, its acknowledgements and a commit. It compares the present state with the wanted one.
// The last message is only a hint that something may have changed, so a lost message does no harm.
func (l *Leader) reconcile(now time.Duration) {
	if l.leases.revoked || now < l.pausedUntil {
		return
	}
	if !l.barrierApplied {
		if now-l.electedAt > max(l.maxTiming.DeadAfter, minBarrierTime) {
			l.stepDown(now, "barrier not applied within dead-after")
		}
		return
	}
	// One entry at a time (rule 1): the next one depends on the fate of this one.
	if l.entryInFlight {
		if now-l.submittedAt > l.options.Pace.AckDeadline() {
			l.stepDown(now, "entry neither applied nor refused")
		}
		return
	}
	if !l.state.Bootstrapped() || !l.checkMembers(now) || l.submitPolicyChange(now) || l.submitRestart(now) || l.submitAppReports(now) {
		return
	}
	l.unblockRound(now)
	assigned, needed := l.neededMap(now)
	switch {
	case !needed:
		l.changeWantedSince = -1
		if l.ownRoundOpen() {
			l.tryCommit(now)
		}
	case l.changeWantedSince < 0:
		l.changeWantedSince = now
	}
	switch {
	case l.changeWantedSince < 0 || assigned.stageMap == nil:
	case now-l.changeWantedSince >= l.batchDelay(assigned.finalMap):
		if l.mayProposeStage(now, assigned) {
			l.propose(now, assigned)
		}
	case l.ownRoundOpen() && l.onlyAddsNodes(assigned.finalMap):
		// The round continues while further changes are batched for the next one.
		l.tryCommit(now)
	}
}

// neededMap returns the map that the leader should propose. needed is false if no proposal is
// needed, because a round of this term already has the final map, or an open round has all of it
// except deferred moves.
func (l *Leader) neededMap(now time.Duration) (assigned *assignment, needed bool) {
	members := l.eligibleMembers(now)
	assigned = l.assign(members)
	l.updateProgress(now, assigned)
	assigned = l.assign(members) // updateProgress may have discarded answers
	l.planStageMap(now, assigned)
	last := l.state.Proposed()
	switch {
	case l.state.Committed().Epoch() == 0 && len(members) == 0:
		return &assignment{}, false
	case l.state.HasOpenProposal() && !l.ownRoundOpen():
		return assigned, true // an earlier leader left its proposal open
	case !l.state.HasOpenProposal() && !l.ownRoundCommitted:
		return assigned, true // rule 4
	case l.state.HasOpenProposal() && assigned.stageMap.HasSameOwners(last) && l.keyConfigChangeBlocked():
		return assigned, true // the same map is proposed again, without the key configuration
	case !l.state.HasOpenProposal() && assigned.finalMap.HasSameOwners(last) && l.keyConfigToActivate(now) != "":
		return assigned, true
	case !l.state.HasOpenProposal() && assigned.finalMap.HasSameOwners(last) && l.newMapRequested:
		return assigned, true // an operator has requested a new map
	case !l.state.HasOpenProposal() && assigned.finalMap.HasSameOwners(last), l.state.HasOpenProposal() && assigned.stageMap.HasSameOwners(last):
		return &assignment{}, false
	}
	return assigned, true
}

// assignment caches the result of assign, because assign runs in every step and its inputs
// seldom change.
type assignment struct {
	members             []shardmap.Member
	committed, proposed *shardmap.Map
	policy              *ack.Policy
	restarting          map[shardmap.NodeID]bool
	keptShards          map[shardmap.Shard]bool
	inputsVersion       uint64
	idleVersion         uint64
	// finalMap is the target map. losing are the owners from which it takes shards.
	finalMap     *shardmap.Map
	losingOwners []shardmap.NodeID
	// stageMap is the map that may be proposed now. It differs from final only in the moves that
	// the owners in staged defer.
	stageMap        *shardmap.Map
	deferringOwners map[shardmap.NodeID]bool
	// isUrgent means that want contains an urgent change, so the leader must propose it before the
	// owners have answered which of their shards are idle.
	isUrgent        bool
	departuresIndex uint64
}

// assign returns an assignment with the final map for members. While its inputs are unchanged, it
// returns the previous assignment, including want and staged. Without members the last map remains
// (rule 10), even if it is only proposed: the committed map may contain a dropped node, which must
// not become an owner again.
func (l *Leader) assign(members []shardmap.Member) *assignment {
	base, last, policy, restarting := l.state.Committed(), l.state.Proposed(), l.state.Policy(), l.restartingNodes()
	if assigned := &l.lastAssignment; assigned.finalMap != nil && assigned.committed == base && assigned.proposed == last && assigned.policy == policy && maps.Equal(assigned.restarting, restarting) && maps.Equal(assigned.keptShards, l.keptShards) && assigned.inputsVersion == l.inputsVersion && assigned.idleVersion == l.gradualDrains.version && assigned.departuresIndex == l.state.DeparturesIndex() && slices.Equal(assigned.members, members) {
		return assigned
	}
	final := last
	var losingOwners []shardmap.NodeID
	if len(members) > 0 {
		final = shardmap.Assign(base, members, l.assignPolicy(policy, restarting, members))
		losingOwners = ownersLosingShards(base, final)
	}
	l.lastAssignment = assignment{
		members: slices.Clone(members), committed: base, proposed: last, policy: policy, restarting: restarting, keptShards: l.keptShards, inputsVersion: l.inputsVersion, idleVersion: l.gradualDrains.version, departuresIndex: l.state.DeparturesIndex(),
		finalMap: final, losingOwners: losingOwners,
	}
	return &l.lastAssignment
}

// planStageMap sets a.want, the map that may be proposed now. A change of the map may be proposed
// in several stages, so that busy shards do not delay idle ones.
func (l *Leader) planStageMap(now time.Duration, assigned *assignment) {
	staged := l.deferringOwners(now, assigned.losingOwners)
	if assigned.stageMap != nil && maps.Equal(assigned.deferringOwners, staged) {
		return
	}
	assigned.stageMap, assigned.deferringOwners = assigned.finalMap, staged
	if len(staged) > 0 {
		placement := l.assignPolicy(assigned.policy, assigned.restarting, assigned.members)
		placement.DefersMoves = staged
		assigned.stageMap = shardmap.Assign(assigned.committed, assigned.members, placement)
		assigned.isUrgent = l.isUrgent(assigned)
	}
}

// assignPolicy returns the placement policy for shardmap.Assign.
func (l *Leader) assignPolicy(policy *ack.Policy, restarting map[shardmap.NodeID]bool, members []shardmap.Member) shardmap.Policy {
	placement := policy.Placement(l.zones())
	placement.Restarting, placement.PreviousOwners = restarting, l.state.PreviousOwners()
	placement.IdleShards = l.gradualDrains.idle
	placement.Barred = l.state.BarredShards()
	l.avoidFailingApps(&placement, members)
	placement.KeptShards = l.keptShards
	return placement
}

// changeReason returns the most important reason for the map want, as metrics spell it.
func (l *Leader) changeReason(now time.Duration, want *shardmap.Map) string {
	last := l.state.Proposed()
	for _, member := range last.Members() {
		if !want.IsMember(member.ID) {
			return l.exclusionReason(now, l.member(member.ID))
		}
	}
	for _, member := range want.Members() {
		if !last.IsMember(member.ID) {
			return l.joinReason(member.ID)
		}
	}
	for _, member := range want.Members() {
		if l.state.Policy().DrainsGradually(member.ID) && want.ShardCount(member.ID) < last.ShardCount(member.ID) {
			return "drain"
		}
	}
	if reason := l.stagedReason(); reason != "" {
		return reason // a later map of the same change
	}
	if slices.Equal(want.Members(), last.Members()) {
		return "policy" // a pin, a cordon or the end of a pause
	}
	return "weight"
}

// joinReason returns why a node gets its first shards, as metrics spell it. The next leader does
// not know about an uncordoned node, so the reason there is "join".
func (l *Leader) joinReason(id shardmap.NodeID) string {
	if l.uncordoned[id] {
		return "uncordon"
	}
	return "join"
}

// exclusionReason returns why a node must not be a member, as metrics spell it.
func (l *Leader) exclusionReason(now time.Duration, node *member) string {
	switch {
	case l.exclusionCause(now, node) != 0:
		return l.exclusionCause(now, node).String()
	case node.hasCrashed():
		return ack.CauseCrashed.String()
	case node.heartbeat.Leaving || node.heartbeat.Goodbye:
		return "leave"
	case l.excludedForHealth(node):
		return "app-unhealthy"
	case l.state.Policy().Drained[node.id]:
		return "drain"
	}
	return ack.CauseSilent.String()
}

// proposalReason returns the reason of a proposal for log, events and metrics. A leader that
// repeats the open proposal of another leader keeps its reason. The first round of a leader
// that changes nothing has the reason "new leader".
func (l *Leader) proposalReason(now time.Duration, assigned *assignment) string {
	switch same := assigned.stageMap.HasSameOwners(l.state.Proposed()); {
	case same && l.state.HasOpenProposal():
		return l.state.ProposalReason()
	case same && l.ownRoundCommitted && l.keyConfigToActivate(now) != "":
		return reasonKeyConfig
	case same && l.ownRoundCommitted && l.newMapRequested:
		return reasonRequested
	case same:
		return reasonNewLeader
	}
	return l.changeReason(now, assigned.finalMap)
}

// reasonNewLeader is the reason of a round that changes nothing. It makes every node
// acknowledge to a newly elected leader (rule 4).
const reasonNewLeader = "new leader"

// reasonKeyConfig is the reason of a round that activates another key configuration and moves no
// shard.
const reasonKeyConfig = "keys"

// reasonRequested is the reason of a round that an operator requested and that moves no shard.
const reasonRequested = "requested"

// eligibleMembers returns the members of the next map, ordered by id: the nodes that may own
// shards, and the nodes that restart in place.
func (l *Leader) eligibleMembers(now time.Duration) []shardmap.Member {
	last := l.state.Proposed()
	for _, member := range last.Members() {
		l.member(member.ID)
	}
	members, ownerExists := l.eligibleBuf[:0], false
	for id, node := range l.members {
		restarting := l.isRestarting(node)
		if !restarting && !l.isEligible(now, node) {
			continue
		}
		ownerExists = ownerExists || !restarting && !l.state.Policy().DrainsGradually(id)
		member := shardmap.Member{ID: id, Weight: node.heartbeat.Weight}
		if restarting || !node.hasHeartbeat() {
			previous, _ := findMember(last, id)
			member.Weight = previous.Weight
		}
		members = append(members, member)
	}
	if !ownerExists {
		members = members[:0]
	}
	slices.SortFunc(members, func(a, b shardmap.Member) int { return cmp.Compare(a.ID, b.ID) })
	l.eligibleBuf, l.keptShards = members, l.findKeptShards(now)
	return members
}

// isEligible reports whether the node may be in the next map.
func (l *Leader) isEligible(now time.Duration, node *member) bool {
	return l.eligibleIgnoringFlaps(now, node) && (l.appsHealth.allOwnersHeldBack || !l.isHeldBack(now, node))
}

// eligibleIgnoringFlaps is eligible without the hold on apps that became unhealthy repeatedly.
func (l *Leader) eligibleIgnoringFlaps(now time.Duration, node *member) bool {
	if node.removed || l.excludedForHealth(node) || node.heartbeat.Leaving || node.heartbeat.Goodbye || node.heartbeat.Gateway || node.hasCrashed() || l.exclusionCause(now, node) != 0 {
		return false
	}
	if l.state.Policy().Drained[node.id] {
		return false
	}
	drop, _ := l.state.Drop(node.id)
	switch {
	case drop.InForce && drop.Cause.MissedRound():
		// Rule 3: it must have acknowledged the proposal that dropped it, and wait for
		// the pause after repeated misses.
		since, ok := l.dropSeenAt[node.id]
		if !ok {
			since = l.electedAt
		}
		return node.hasAcked(drop.Epoch) && node.hasAcked(l.state.Committed().Epoch()) && !node.isSilent(now, l.options.Pace) && now-since >= flapPause(drop.Strikes)
	case drop.InForce || !l.state.Proposed().IsMember(node.id):
		return node.freshStreak >= requiredStreak && l.canServe(now, node) && !node.isSilent(now, l.options.Pace) && node.hasAcked(l.state.Committed().Epoch())
	case !node.hasHeartbeat():
		// An election by itself moves nothing (rule 4, why 18).
		return now-l.electedAt < l.maxTiming.DeadAfter
	}
	return !node.isSilent(now, l.options.Pace)
}

// canServe reports whether a node could serve shards immediately because it has a lease. The first
// lease of a boot takes one or two heartbeats longer than the other conditions of eligibility.
// A member of the committed map owns its shards already, and before the first map there are no
// leases.
func (l *Leader) canServe(now time.Duration, node *member) bool {
	committed := l.state.Committed()
	return node.hadLease && now-node.lastGrantAt <= l.maxTiming.Lease || committed.IsMember(node.id) || committed.Epoch() == 0
}

// exclusionCause returns why a member of the last map must be dropped although the leader
// receives its heartbeats; zero if it need not.
func (l *Leader) exclusionCause(now time.Duration, node *member) ack.DropCause {
	last := l.state.Proposed()
	switch {
	case !last.IsMember(node.id):
		return 0
	case node.removed:
		return ack.CauseRemoved
	case l.isRestarting(node) || !node.hasHeartbeat() || node.isSilent(now, l.options.Pace) || node.hasCrashed():
		return 0
	case l.ownRoundOpen() && now-max(l.roundStartedAt, node.restartTimes.endedAt) > l.ackDeadline(node) && !node.hasCompleteAck(last.Epoch()):
		return ack.CauseMissedAck
	case node.behindSince >= 0 && now-max(node.behindSince, node.restartTimes.endedAt) > l.options.Pace.AckDeadline():
		return ack.CauseBehind
	}
	return 0
}

// checkMembers emits events for members that became silent or returned, and counts missed
// acknowledgements. It returns false if every member missed the deadline: then the fault is
// probably at the leader, which steps down.
func (l *Leader) checkMembers(now time.Duration) bool {
	last := l.state.Proposed()
	acked, missed := 0, 0
	for _, member := range last.Members() {
		node := l.member(member.ID)
		if silent := node.hasHeartbeat() && node.isSilent(now, l.options.Pace) && !l.isRestarting(node); silent != node.wasSilent {
			node.wasSilent = silent
			kind := EventNodeRecovered
			if silent {
				kind = EventNodeUnresponsive
			}
			l.emit(Event{Kind: kind, Node: node.id})
		}
		switch {
		case node.hasCompleteAck(last.Epoch()):
			acked++
		case l.exclusionCause(now, node) == ack.CauseMissedAck:
			missed++
		}
	}
	if acked == 0 && missed > 0 {
		l.stepDown(now, "no member acknowledged")
		return false
	}
	l.denyLateLeases(now)
	return true
}

// denyLateLeases denies leases to owners that the open proposal excludes without a drop (they
// leave, or their app is unhealthy) and that do not acknowledge it in time. Otherwise the
// round would wait for them forever (why 14).
func (l *Leader) denyLateLeases(now time.Duration) {
	if !l.ownRoundOpen() {
		return
	}
	last := l.state.Proposed()
	for _, member := range l.state.Committed().Members() {
		if node := l.member(member.ID); now-l.roundStartedAt > l.ackDeadline(node) && !last.IsMember(member.ID) && !node.hasCompleteAck(last.Epoch()) {
			node.leaseDeniedUntil = last.Epoch()
		}
	}
}

// ackDeadline returns how long the node may take to acknowledge a proposal. A node with hooks gets
// the additional time that it reports.
func (l *Leader) ackDeadline(node *member) time.Duration {
	return l.options.Pace.AckDeadline() + node.heartbeat.ReleaseTime
}

// propose submits a proposal of a.want, based on the committed map, with a record of every
// dropped node and the cause.
func (l *Leader) propose(now time.Duration, a *assignment) {
	stageMap := a.stageMap
	entry := ack.ProposalEntry{Term: l.options.Term, Base: l.state.Committed().Epoch(), Reason: l.proposalReason(now, a), Want: stageMap}
	if !l.state.HasOpenProposal() || l.state.ChangesKeyConfig() {
		entry.KeyConfig = l.keyConfigToActivate(now)
	}
	for id, cause := range l.exclusions(now, stageMap) {
		entry.Drops = append(entry.Drops, ack.DropRecord{Node: id, Cause: cause, Strikes: l.countMissedAcks(now, id, cause)})
	}
	slices.SortFunc(entry.Drops, func(a, b ack.DropRecord) int { return cmp.Compare(a.Node, b.Node) })
	encoded, err := ack.EncodeProposal(l.state.FormatVersion(), entry)
	if err != nil {
		// Every map of shardmap.Assign can be encoded.
		panic(err)
	}
	l.changeWantedSince, l.entryInFlight, l.submittedAt = -1, true, now
	l.newMapRequested = false
	l.emit(Event{
		Kind: EventProposing, Epoch: entry.Base, Moved: len(shardmap.Diff(l.state.Committed(), stageMap)), Reason: entry.Reason,
		Joined: membersMissingFrom(stageMap, l.state.Committed()), Left: membersMissingFrom(l.state.Committed(), stageMap),
		Deferred: slices.Sorted(maps.Keys(a.deferringOwners)), DeferredShards: len(shardmap.Diff(stageMap, a.finalMap)),
	})
	l.countProposal(now, stageMap)
	for _, record := range entry.Drops {
		l.emit(Event{Kind: EventNodeExcluded, Node: record.Node, Cause: record.Cause})
	}
	l.emit(Submit{Entry: encoded})
}

// membersMissingFrom returns the members of the map from that other does not have.
func membersMissingFrom(from, other *shardmap.Map) (nodes []shardmap.NodeID) {
	for _, member := range from.Members() {
		if !other.IsMember(member.ID) {
			nodes = append(nodes, member.ID)
		}
	}
	return nodes
}

// exclusions returns the nodes that the proposal drops, with the causes. These are members of the
// committed map or of the last proposal. Nodes that leave, are drained or have an unhealthy app are
// excluded without a drop.
func (l *Leader) exclusions(now time.Duration, proposal *shardmap.Map) map[shardmap.NodeID]ack.DropCause {
	causes := map[shardmap.NodeID]ack.DropCause{}
	for _, member := range slices.Concat(l.state.Committed().Members(), l.state.Proposed().Members()) {
		node := l.member(member.ID)
		if proposal.IsMember(member.ID) {
			continue
		}
		drop, _ := l.state.Drop(member.ID)
		switch {
		case l.exclusionCause(now, node) != 0:
			causes[member.ID] = l.exclusionCause(now, node)
		case drop.InForce:
			// Already dropped for the same cause: keep the record, because its epoch is
			// the proposal that the node must acknowledge.
		case node.hasCrashed():
			causes[member.ID] = ack.CauseCrashed
		case node.hasHeartbeat() && node.isSilent(now, l.options.Pace), now-l.electedAt >= l.maxTiming.DeadAfter && !node.hasHeartbeat():
			// A drained node may be excluded before the leader knows whether it is silent.
			causes[member.ID] = ack.CauseSilent
		}
	}
	return causes
}

// countMissedAcks counts missed acknowledgements that follow each other within ack.FlapWindow. A
// new leader has no record of the time of the last one, and uses the time of its election.
func (l *Leader) countMissedAcks(now time.Duration, id shardmap.NodeID, cause ack.DropCause) uint32 {
	drop, ok := l.state.Drop(id)
	if !cause.MissedRound() {
		return drop.Strikes
	}
	since, known := l.dropSeenAt[id]
	if !known {
		since = l.electedAt
	}
	if !ok || now-since > ack.FlapWindow {
		return 1
	}
	return drop.Strikes + 1
}

// tryCommit submits the commit of the open proposal once every member has acknowledged it and
// no excluded owner may still serve (G4, rule 5).
func (l *Leader) tryCommit(now time.Duration) {
	proposed := l.state.Proposed()
	for _, member := range proposed.Members() {
		if !l.needsNoFurtherAck(l.member(member.ID), proposed) {
			return
		}
	}
	committed := l.state.Committed()
	var takeovers []Event
	for _, member := range committed.Members() {
		if proposed.IsMember(member.ID) || committed.ShardCount(member.ID) == 0 {
			continue
		}
		rule := l.takeoverRule(now, l.member(member.ID), proposed.Epoch())
		if rule == "" {
			return
		}
		takeovers = append(takeovers, Event{Kind: EventTakeover, Node: member.ID, Epoch: proposed.Epoch(), Reason: rule})
	}
	for _, takeover := range takeovers {
		l.emit(takeover)
	}
	// From this step on, a lease requires an acknowledgement of the proposal.
	l.committingEpoch, l.entryInFlight, l.submittedAt = proposed.Epoch(), true, now
	l.emit(Event{Kind: EventCommitting, Epoch: proposed.Epoch()})
	entry := ack.CommitEntry{Epoch: proposed.Epoch(), Digest: proposed.Digest()}
	entry.Released, entry.Servers = l.releasesToCommit(committed, proposed)
	l.emit(Submit{Entry: ack.EncodeCommit(l.state.FormatVersion(), entry), Commit: true})
}

// awaitsCrashRestart reports whether RestartGrace delays a takeover: for a crashed node that
// may restart, or for a restarted node that is not eligible yet.
func (l *Leader) awaitsCrashRestart(now time.Duration, node *member) bool {
	if node.removed || node.heartbeat.Leaving || node.heartbeat.Unhealthy {
		return false
	}
	return node.hasCrashed() && now-node.crashSeenAt < l.options.Pace.RestartGrace ||
		node.rebooted && now-node.firstHeartbeatAt < l.options.Pace.RestartGrace
}

// takeoverRule returns the rule by which the shards of a node that the proposal excludes may be
// taken, or "" if they may not be taken yet (docs/internals/protocol-leases.md, "When a shard may
// be taken").
func (l *Leader) takeoverRule(now time.Duration, node *member, proposal shardmap.Epoch) string {
	sinceGrant := now - node.lastGrantAt
	switch {
	case node.heartbeat.Goodbye:
		return "goodbye"
	case l.awaitsCrashRestart(now, node):
		return ""
	case node.hasCompleteAck(proposal):
		return "acknowledged"
	case node.rebooted && !node.hadLease:
		return "new-boot"
	case node.removed:
		return "removed"
	case sinceGrant >= l.maxTiming.DeadAfter:
		return "silence"
	case !node.hasCrashed() || l.maxTiming.Takeover == ack.TakeoverTimeout:
		return ""
	case l.maxTiming.Takeover == ack.TakeoverImmediate:
		return "refusal"
	case sinceGrant > l.maxTiming.LeaseExpiry():
		return "evidence"
	}
	return ""
}
