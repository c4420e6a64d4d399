package leader

import (
	"maps"
	"slices"

	"shardway/ack"
	"shardway/shardmap"
)

// reconcile advances the round: the change from one committed map to the next, which consists of a
// proposal, its acknowledgements and a commit. It compares the current state with the wanted one.
// The last message is only a hint that something may have changed, so a lost message does no harm.
func (l *Leader) reconcile() {
	if !l.maySubmit() || !l.in.state.Bootstrapped() {
		return
	}
	l.reportSilentMembers()
	l.reportUnreachableMembers()
	if l.allMembersMissedDeadline() {
		l.stepDown("no member acknowledged") // the fault is probably at this leader
		return
	}
	l.membership.denyLateLeases(l.in, &l.members)
	if l.submitPolicyChange() || l.submitRestart() || l.submitAppReports() {
		return
	}
	l.unblockRound()
	assigned, needed := l.neededMap()
	if !needed {
		l.changeWantedSince, l.newMapRequested = -1, false
		if l.in.ownRoundOpen() {
			l.tryCommit()
		}
		return
	}
	if l.changeWantedSince < 0 {
		l.changeWantedSince = l.in.now
	}
	switch {
	case l.newMapRequested || l.in.now-l.changeWantedSince >= l.batchDelay(assigned.finalMap):
		if l.mayProposeStage(assigned) {
			l.propose(assigned)
		}
	case l.in.ownRoundOpen() && onlyAddsNodes(l.in, assigned.finalMap):
		// The round continues while further changes are batched for the next one.
		l.tryCommit()
	}
}

// maySubmit reports whether the leader may submit an entry now. The leader steps down if Raft does
// not apply its barrier or its last entry.
func (l *Leader) maySubmit() bool {
	if l.leases.revoked || l.in.now < l.pausedUntil {
		return false
	}
	if !l.leases.barrierApplied() {
		if l.in.now-l.in.electedAt > max(l.in.timing.DeadAfter, minBarrierTime) {
			l.stepDown("barrier not applied within dead-after")
		}
		return false
	}
	// One entry at a time (rule 1): the next one depends on the outcome of this one.
	if l.pending.exists() {
		if l.in.now-l.pending.submittedAt > l.in.pace.AckDeadline() {
			l.stepDown("entry neither applied nor refused")
		}
		return false
	}
	return true
}

// allMembersMissedDeadline reports whether a member missed the deadline for its acknowledgement, and
// no member has acknowledged.
func (l *Leader) allMembersMissedDeadline() bool {
	last := l.in.state.Proposed()
	acked, missed := 0, 0
	for _, member := range last.Members() {
		node := l.members.getOrCreate(member.ID)
		if node.hasCompleteAck(last.Epoch()) {
			acked++
		} else if l.membership.exclusionCause(l.in, node) == ack.CauseMissedAck {
			missed++
		}
	}
	return acked == 0 && missed > 0
}

// reportSilentMembers emits an event for each member that became silent or returned.
func (l *Leader) reportSilentMembers() {
	for _, member := range l.in.state.Proposed().Members() {
		node := l.members.getOrCreate(member.ID)
		isSilent := node.hasHeartbeat() && node.isSilent(l.in) && !l.in.isRestarting(node)
		if isSilent == node.wasSilent {
			continue
		}
		node.wasSilent, node.silentAt = isSilent, -1
		kind := EventNodeRecovered
		if isSilent {
			kind, node.silentAt = EventNodeUnresponsive, l.in.now
		}
		l.emit(Event{Kind: kind, Node: node.id})
	}
}

// reportUnreachableMembers emits an event for each node that most members begin or stop to report as unreachable.
func (l *Leader) reportUnreachableMembers() {
	for _, id := range l.membership.reports.takeChanges(&l.members) {
		node := l.members.getOrCreate(id)
		if node.reportedSince >= 0 {
			l.emit(Event{Kind: EventNodeUnreachable, Node: id, Reporters: l.members.reporters(l.in, id)})
		} else {
			l.emit(Event{Kind: EventNodeReachable, Node: id})
		}
	}
}

// neededMap returns the map that the leader should propose. needed is false if no proposal is
// needed, because a round of this term already has the final map, or an open round has all of it
// except deferred moves.
func (l *Leader) neededMap() (assigned *assignment, needed bool) {
	l.updateAssignment()
	l.updateStagedMoves(l.assigned.losingOwners)
	l.updateAssignment() // updateStagedMoves may have discarded answers
	assigned = &l.assigned
	assigned.planStage(l.deferringOwners(assigned.losingOwners))
	if l.in.state.Committed().Epoch() == 0 && len(assigned.inputs.members) == 0 {
		return assigned, false
	}
	if l.in.state.HasOpenProposal() {
		return assigned, l.mustReplaceProposal(assigned)
	}
	return assigned, l.mustPropose(assigned)
}

// mustReplaceProposal reports whether the leader must replace the open proposal.
func (l *Leader) mustReplaceProposal(assigned *assignment) bool {
	if !l.in.ownRoundOpen() {
		return true // an earlier leader left its proposal open
	}
	if assigned.stageMap.HasSameOwners(l.in.state.Proposed()) {
		// The same map is proposed again only without the key configuration.
		return l.keyConfig.isBlocked(l.in, &l.members)
	}
	return true
}

// mustPropose reports whether the leader must begin a round, although no proposal is open.
func (l *Leader) mustPropose(assigned *assignment) bool {
	if !l.ownRoundCommitted {
		return true // rule 4
	}
	if !assigned.finalMap.HasSameOwners(l.in.state.Proposed()) {
		return true
	}
	return l.keyConfigToActivate() != ""
}

// updateAssignment computes the final map from the current members.
func (l *Leader) updateAssignment() {
	l.memberBuf = l.membership.appendMembers(l.memberBuf[:0], l.in, &l.members)
	services := l.membership.services.placement(l.in, l.memberBuf, &l.members, l.options.Replicas)
	l.assigned.update(placementInputs{
		inputs: l.in, nodes: &l.members, members: l.memberBuf, restarting: l.members.restartingNodes(l.in),
		keptShards: l.membership.keptShards(l.in, &l.members), services: services, replicas: l.options.Replicas, spreadZones: l.options.SpreadZones, idle: l.idle, reportsVersion: l.members.reportsVersion,
	})
}

// keyConfigToActivate returns the key configuration that must become active now, or "" if there is
// none.
func (l *Leader) keyConfigToActivate() string {
	return l.keyConfig.configToActivate(l.in, &l.members, &l.membership)
}

// changeReason returns the most important reason for the map want, as metrics spell it.
func (l *Leader) changeReason(want *shardmap.Map) string {
	last := l.in.state.Proposed()
	for _, member := range last.Members() {
		if !want.IsMember(member.ID) {
			return l.membership.exclusionReason(l.in, l.members.getOrCreate(member.ID))
		}
	}
	for _, member := range want.Members() {
		if !last.IsMember(member.ID) {
			return l.membership.joinReason(member.ID)
		}
	}
	for _, member := range want.Members() {
		losesShards := want.ShardCount(member.ID) < last.ShardCount(member.ID)
		if losesShards && l.in.state.Policy().DrainsGradually(member.ID) {
			return "drain"
		}
	}
	if reason := l.staged.reason(); reason != "" {
		return reason // a later map of the same change
	}
	if want.Len() > last.Len() {
		return reasonService
	}
	if slices.Equal(want.Members(), last.Members()) {
		return "policy" // a pin, a cordon or the end of a pause
	}
	if reason := l.instanceReason(last, want); reason != "" {
		return reason
	}
	return "weight"
}

// instanceReason returns the reason of a change of app instances; empty if no member has other
// instances.
func (l *Leader) instanceReason(last, want *shardmap.Map) string {
	reason := ""
	for _, member := range want.Members() {
		old, isOld := findMember(last, member.ID)
		if !isOld || old.Instances == member.Instances {
			continue
		}
		for _, instance := range old.Instances.All() {
			switch {
			case member.Instances.Has(instance):
			case l.in.state.Policy().DrainsInstance(member.ID, instance):
				return "drain"
			default:
				return "instance-unhealthy"
			}
		}
		reason = "instance"
	}
	return reason
}

// The reasons of a round that moves no shard.
const (
	// reasonNewLeader makes every node acknowledge to a newly elected leader (rule 4).
	reasonNewLeader = "new leader"
	// reasonKeyConfig activates another key configuration.
	reasonKeyConfig = "keys"
	// reasonService makes the map longer for a new service.
	reasonService = "service"
)

// proposalReason returns the reason of a proposal for log, events and metrics. A leader that
// repeats the open proposal of another leader keeps its reason. The first round of a leader
// that changes nothing has the reason "new leader".
func (l *Leader) proposalReason(assigned *assignment) string {
	if !assigned.stageMap.HasSameOwners(l.in.state.Proposed()) {
		return l.changeReason(assigned.finalMap)
	}
	switch {
	case l.in.state.HasOpenProposal():
		return l.in.state.ProposalReason()
	case !l.ownRoundCommitted:
		return reasonNewLeader
	case l.keyConfigToActivate() != "":
		return reasonKeyConfig
	}
	return reasonNewLeader
}

// propose submits a proposal of the stage map, based on the committed map, with a record of every
// dropped node and the cause.
func (l *Leader) propose(assigned *assignment) {
	state, stageMap := l.in.state, assigned.stageMap
	entry := ack.ProposalEntry{
		Term: l.in.term, Base: state.Committed().Epoch(), Reason: l.proposalReason(assigned), Want: stageMap,
		Drops: l.membership.dropRecords(l.in, &l.members, stageMap),
	}
	if !state.HasOpenProposal() || state.ChangesKeyConfig() {
		entry.KeyConfig = l.keyConfigToActivate()
	}
	encoded, err := ack.EncodeProposal(state.FormatVersion(), entry)
	if err != nil {
		// Every map of shardmap.Assign can be encoded.
		panic(err)
	}
	l.changeWantedSince, l.newMapRequested = -1, false
	l.pending.submit(l.in.now, proposalEntry)
	l.emit(Event{
		Kind: EventProposing, Epoch: entry.Base, Moved: len(shardmap.Diff(state.Committed(), stageMap)), Reason: entry.Reason,
		Joined: membersMissingFrom(stageMap, state.Committed()), Left: membersMissingFrom(state.Committed(), stageMap),
		Deferred: slices.Sorted(maps.Keys(assigned.deferringOwners)), DeferredShards: len(shardmap.Diff(stageMap, assigned.finalMap)),
	})
	l.staged.countProposal(l.in, ownersLosingShards(state.Committed(), stageMap))
	for _, record := range entry.Drops {
		node := l.members.getOrCreate(record.Node)
		l.emit(Event{Kind: EventNodeExcluded, Node: record.Node, Cause: record.Cause, Sign: node.firstSign(record.Cause), Reporters: l.members.reporters(l.in, record.Node)})
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

// tryCommit submits the commit of the open proposal once every member has acknowledged it and
// no excluded owner may still serve (G4, rule 5).
func (l *Leader) tryCommit() {
	proposed := l.in.state.Proposed()
	for _, member := range proposed.Members() {
		if !l.members.getOrCreate(member.ID).needsNoFurtherAck(l.in) {
			return
		}
	}
	takeovers, complete := l.takeovers()
	if !complete {
		return
	}
	for _, takeover := range takeovers {
		l.emit(takeover)
	}
	// From this step on, a lease requires an acknowledgement of the proposal.
	l.pending.submitCommit(l.in.now, proposed.Epoch())
	l.emit(Event{Kind: EventCommitting, Epoch: proposed.Epoch()})
	handover := l.members.collectHandover(l.in)
	for _, rejected := range handover.rejected {
		l.emit(rejected)
	}
	entry := ack.CommitEntry{Epoch: proposed.Epoch(), Digest: proposed.Digest(), Released: handover.released, Servers: handover.servers}
	l.emit(Submit{Entry: ack.EncodeCommit(l.in.state.FormatVersion(), entry), Commit: true})
}

// takeovers returns an event for each owner that the open proposal excludes, with the rule by which
// its shards may be taken. complete is false if the shards of an owner may not be taken yet.
func (l *Leader) takeovers() (events []Event, complete bool) {
	committed, proposed := l.in.state.Committed(), l.in.state.Proposed()
	for _, owner := range committed.Members() {
		if proposed.IsMember(owner.ID) || committed.ShardCount(owner.ID) == 0 {
			continue
		}
		rule := l.members.getOrCreate(owner.ID).takeoverRule(l.in, proposed.Epoch())
		if rule == "" {
			return nil, false
		}
		events = append(events, Event{Kind: EventTakeover, Node: owner.ID, Epoch: proposed.Epoch(), Reason: rule})
	}
	return events, true
}

// submitConfig submits an entry that is neither a proposal nor a commit. requestNumber is the number
// of a requested policy change, otherwise zero.
func (l *Leader) submitConfig(entry []byte, requestNumber uint64) {
	l.pending.submit(l.in.now, configEntry)
	l.emit(Submit{Entry: entry, RequestNumber: requestNumber})
}
