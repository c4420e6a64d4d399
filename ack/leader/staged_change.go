package leader

import (
	"shardway/ack"
	"shardway/shardmap"
)

// mayDefer reports whether the owner may temporarily keep busy shards that another node will own.
// This requires a live member with a lease. The shards of every other owner move immediately.
func (l *Leader) mayDefer(node *member) bool {
	isStopTheWorld := l.in.timing.RebalanceMode == ack.RebalanceStopTheWorld
	if isStopTheWorld || l.staged.hasTimedOut(node.id) {
		return false
	}
	if l.in.state.Policy().DrainsGradually(node.id) || l.drains.overdue[node.id] {
		return false
	}
	return l.membership.isReliable(l.in, node)
}

// deferringOwners returns the owners that may keep busy shards which the final map moves, with their
// instances that have not failed; nil if there are none.
func (l *Leader) deferringOwners(losingOwners []shardmap.NodeID) (owners map[shardmap.NodeID]shardmap.InstanceSet) {
	if len(losingOwners) == 0 || l.keyConfig.isDueNow(l.in, &l.members, &l.membership) {
		return nil
	}
	for _, id := range losingOwners {
		node := l.members.getOrCreate(id)
		instances, found := l.membership.healthyInstances(l.in, node)
		if found && l.mayDefer(node) {
			setKey(&owners, id, instances)
		}
	}
	return owners
}

// mayProposeStage reports whether a map may be proposed now. Unless a change cannot wait, the
// leader first asks the owners which of their shards are idle, and uses their answers.
func (l *Leader) mayProposeStage(assigned *assignment) bool {
	if len(assigned.deferringOwners) == 0 || l.in.state.HasOpenProposal() || !l.ownRoundCommitted {
		return true
	}
	for id := range assigned.deferringOwners {
		if l.staged.progress[id] == nil {
			l.staged.begin(l.in.now, id, l.changeReason(assigned.finalMap))
		}
	}
	if assigned.isUrgent {
		return true
	}
	if !l.staged.isQueryOpen() {
		if l.in.now >= l.staged.nextQueryAt {
			l.queryIdleShards(nodeSetOf(assigned.deferringOwners))
		}
		return false
	}
	if len(l.staged.awaitingAnswer) > 0 {
		if l.in.now-l.staged.querySentAt >= answerTimeout {
			l.idle.addOwned(l.in.state.Committed(), l.staged.endWait())
		}
		return false
	}
	l.staged.finishQuery(l.in)
	return !assigned.stageMap.HasSameOwners(l.in.state.Proposed())
}

// queryIdleShards sends a query to all owners with deferred moves. Their earlier answers no longer
// count.
func (l *Leader) queryIdleShards(owners map[shardmap.NodeID]bool) {
	l.idle.removeOwned(l.in.state, owners)
	for _, query := range l.staged.beginQuery(l.in.now, owners) {
		l.emit(query)
	}
}

// updateStagedMoves updates the progress of staged moves. An open round is not changed.
func (l *Leader) updateStagedMoves(losingOwners []shardmap.NodeID) {
	if l.in.state.HasOpenProposal() {
		return
	}
	isUnused := l.staged.cancelUnusedQuery(l.in.now)
	l.staged.update(l.in, losingOwners)
	if len(l.idle.shards) == 0 {
		return
	}
	outdated := map[shardmap.NodeID]bool{}
	for _, member := range l.in.state.Committed().Members() {
		answerCounts := l.staged.progress[member.ID] != nil && l.mayDefer(l.members.getOrCreate(member.ID))
		outdated[member.ID] = isUnused || !answerCounts
	}
	l.idle.removeOwned(l.in.state, outdated)
}

// unblockRound asks, once for each proposal, which shards block the open round. The round then
// continues without them. A long request may begin after an owner has answered and before the
// shard is held, and all other moving shards would wait for its end.
func (l *Leader) unblockRound() {
	last := l.in.state.Proposed()
	isBlocked := l.in.ownRoundOpen() && l.in.now-l.membership.roundStartedAt >= blockedAfter
	if !isBlocked || l.staged.unblockedEpoch == last.Epoch() {
		return
	}
	l.staged.unblockedEpoch = last.Epoch()
	if l.in.state.ChangesKeyConfig() {
		return // such a round moves all shards
	}
	for _, id := range ownersLosingShards(l.in.state.Committed(), last) {
		progress, node := l.staged.progress[id], l.members.getOrCreate(id)
		if progress == nil || progress.proposals >= maxStages {
			continue
		}
		if !node.hasCompleteAck(last.Epoch()) && l.mayDefer(node) {
			l.emit(l.staged.queryBlockingShards(l.in.now, id))
		}
	}
}

// recordIdle applies a report of idle shards. A node sends it in answer to a query, or without
// one during a gradual drain.
func (l *Leader) recordIdle(report IdleShards) {
	isAwaited := l.staged.awaitingAnswer[report.Node]
	if report.MapEpoch != l.in.state.Committed().Epoch() || report.IsAnswer && !isAwaited {
		return
	}
	switch {
	case report.IsAnswer && l.in.state.HasOpenProposal():
		l.recordBlockingShards(report)
	case report.IsAnswer:
		l.recordIdleAnswer(report)
	case l.in.state.HasOpenProposal() || l.pending.exists():
		// The open round, or a proposal or commit that is being submitted, does not change.
	case l.in.state.Policy().DrainsGradually(report.Node):
		l.idle.replaceOwned(l.in.state.Committed(), report.Node, report.Shards)
	}
}

// recordIdleAnswer applies the response to an open query. A proposal withdraws the query, so the
// response counts even while another entry is being submitted.
func (l *Leader) recordIdleAnswer(report IdleShards) {
	committed := l.in.state.Committed()
	leavesBusyShard := l.assigned.leavesBusyShard(committed, report.Node, report.Shards)
	if !l.staged.mayUseAnswer(l.in.now, report.Node, leavesBusyShard) {
		report.Shards = nil
	}
	l.idle.replaceOwned(committed, report.Node, report.Shards)
}

// recordBlockingShards applies the response of an owner to the query which shards block the open
// round. The busy shards of the owner stay with it for now.
func (l *Leader) recordBlockingShards(report IdleShards) {
	if l.in.ownRoundOpen() && !l.pending.exists() {
		delete(l.staged.awaitingAnswer, report.Node)
		l.idle.removeBusy(l.in.state.Committed(), report.Node, report.Shards)
	}
}
