package leader

import (
	"maps"
	"slices"
	"time"

	"shardway/ack"
	"shardway/shardmap"
)

const (
	// The time between two questions of a staged change is drain-timeout / questionFraction, but at
	// most maxQuestionInterval. A question asks the owners of moving shards which of them are idle.
	questionFraction    = 20
	maxQuestionInterval = 250 * time.Millisecond
	// answerTimeout is how long the leader waits for the responses of the owners.
	answerTimeout = 100 * time.Millisecond
	// maxAnswerAge is the age of a question above which its responses are ignored, because requests
	// may have begun since. Answers get old if another entry enters the log slowly, or if the
	// leader waits for further changes.
	maxAnswerAge = 2 * answerTimeout
	// blockedAfter is the age of an open round at which the leader asks the owners which
	// shards block it.
	blockedAfter = 50 * time.Millisecond
	// maxStages is the maximum number of stages: maps that move some shards of an owner and leave
	// it busy ones. The time between two stages doubles. A map that leaves the owner no busy shard
	// does not wait for that time. There are at most 2*maxStages of those: requests may begin while
	// such a map is proposed, and make another one necessary.
	maxStages = 10
)

// stagedMoves is the progress of planned moves: idle shards move first, and busy ones wait up
// to drain-timeout (docs/internals/protocol-moves.md, "Planned moves in stages").
type stagedMoves struct {
	// progress are the nodes with busy shards that will move to another node.
	progress        map[shardmap.NodeID]*ownerProgress
	questionAskedAt time.Duration // when the open question was asked; negative means that none is open
	nextQuestionAt  time.Duration // when the next question is due
	// awaitingAnswer are the owners that have not answered the open question.
	awaitingAnswer map[shardmap.NodeID]bool
	// unblockedEpoch is the last proposal for which unblockRound asked the owners.
	unblockedEpoch shardmap.Epoch
	// overdueDrains are drained nodes whose gradual drain has timed out.
	overdueDrains map[shardmap.NodeID]bool
}

// ownerProgress is the progress of one owner. It begins when the leader first defers a move from
// the owner, and ends when no map takes shards from the owner any more. If the only possible target
// fails, the progress ends, and the time starts again when a target returns. Running requests are
// not aborted for a move to a node that may fail again.
type ownerProgress struct {
	startedAt time.Duration
	// timedOut means that drain-timeout has passed since began, so busy shards move, too.
	timedOut       bool
	questions      int           // number of questions sent to it
	proposals      int           // number of proposals that move shards away from it
	nextProposalAt time.Duration // earliest time of the next proposal that leaves it busy shards
	// reason is the reason of the change, as metrics spell it.
	reason string
}

func newStagedMoves() stagedMoves {
	return stagedMoves{progress: map[shardmap.NodeID]*ownerProgress{}, questionAskedAt: -1}
}

// withdrawQuestion discards the open question, because the map that it refers to is no longer
// committed or a round has opened.
func (s *stagedMoves) withdrawQuestion() { s.questionAskedAt, s.awaitingAnswer = -1, nil }

// questionInterval returns the time between two questions.
func (s *stagedMoves) questionInterval(pace ack.Pace) time.Duration {
	return min(pace.DrainTimeout/questionFraction, maxQuestionInterval)
}

// mayDefer reports whether the owner may temporarily keep busy shards that another node will own.
// This requires a live member with a lease. The shards of every other owner move immediately.
func (l *Leader) mayDefer(now time.Duration, node *member) bool {
	if progress := l.stagedMoves.progress[node.id]; progress != nil && progress.timedOut || l.maxTiming.RebalanceMode == ack.RebalanceStopTheWorld || l.state.Policy().DrainsGradually(node.id) || l.stagedMoves.overdueDrains[node.id] {
		return false
	}
	if drop, _ := l.state.Drop(node.id); drop.InForce || l.isHeldBack(now, node) || l.isRestarting(node) || node.removed || node.hasCrashed() || l.exclusionCause(now, node) != 0 {
		return false
	}
	if !node.hasHeartbeat() { // a new leader must not move shards only because it has no heartbeat yet (see isEligible)
		return now-l.electedAt < l.maxTiming.DeadAfter
	}
	// Shortly after an election, an owner may not have a lease of this leader yet.
	follows := node.hadLease && node.hasAcked(l.state.Committed().Epoch()) || now-l.electedAt < l.maxTiming.DeadAfter
	return follows && !node.isSilent(now, l.options.Pace) && !node.heartbeat.Unhealthy && !node.heartbeat.Goodbye && !node.heartbeat.Gateway
}

// deferringOwners returns the owners that may keep busy shards which the final map moves; nil
// if there are none.
func (l *Leader) deferringOwners(now time.Duration, losingOwners []shardmap.NodeID) (owners map[shardmap.NodeID]bool) {
	if len(losingOwners) == 0 || l.changesKeyConfigNow(now) {
		return nil
	}
	for _, id := range losingOwners {
		if l.mayDefer(now, l.member(id)) {
			setKey(&owners, id, true)
		}
	}
	return owners
}

// ownersLosingShards returns the owners from which want takes shards, ascending.
func ownersLosingShards(base, want *shardmap.Map) []shardmap.NodeID {
	from := map[shardmap.NodeID]bool{}
	for _, move := range shardmap.Diff(base, want) {
		if move.From != "" {
			from[move.From] = true
		}
	}
	return slices.Sorted(maps.Keys(from))
}

// mayProposeStage reports whether a map may be proposed now. Unless a change cannot wait, the
// leader first asks the owners which of their shards are idle, and uses their answers.
func (l *Leader) mayProposeStage(now time.Duration, assigned *assignment) bool {
	staged := &l.stagedMoves
	if len(assigned.deferringOwners) == 0 || l.state.HasOpenProposal() || !l.ownRoundCommitted {
		return true
	}
	for id := range assigned.deferringOwners {
		if staged.progress[id] == nil {
			staged.progress[id] = &ownerProgress{startedAt: now, reason: l.changeReason(now, assigned.finalMap)}
			staged.nextQuestionAt = now
		}
	}
	if assigned.isUrgent {
		return true
	}
	if staged.questionAskedAt < 0 {
		if now >= staged.nextQuestionAt {
			l.askIdle(now, assigned)
		}
		return false
	}
	if len(staged.awaitingAnswer) > 0 {
		if now-staged.questionAskedAt >= answerTimeout {
			l.endQuestion()
		}
		return false
	}
	staged.questionAskedAt, staged.nextQuestionAt = -1, now+staged.questionInterval(l.options.Pace)
	return !assigned.stageMap.HasSameOwners(l.state.Proposed())
}

// askIdle sends a question to all owners with deferred moves. Their earlier answers no longer
// count.
func (l *Leader) askIdle(now time.Duration, assigned *assignment) {
	staged := &l.stagedMoves
	staged.questionAskedAt, staged.awaitingAnswer = now, maps.Clone(assigned.deferringOwners)
	l.forgetIdleShards(func(id shardmap.NodeID) bool { return !assigned.deferringOwners[id] })
	for _, id := range slices.Sorted(maps.Keys(assigned.deferringOwners)) {
		l.emit(AskIdle{Node: id, QuestionNumber: staged.progress[id].questions})
		staged.progress[id].questions++
	}
}

// endQuestion closes a question that some owners have not answered in time. After the first
// question, all shards of a silent owner count as idle, so the shards of a node that never
// answers move without stages.
func (l *Leader) endQuestion() {
	staged := &l.stagedMoves
	idle := maps.Clone(l.gradualDrains.idle)
	for id := range staged.awaitingAnswer {
		if progress := staged.progress[id]; progress == nil || progress.questions > 1 {
			continue
		}
		for shard := range l.state.Committed().Shards(id) {
			setKey(&idle, shard, true)
		}
	}
	l.gradualDrains.setIdle(idle)
	staged.awaitingAnswer = nil
}

// mayUseAnswer reports whether the next proposal may use the response of an owner. Proposals for
// one owner are spaced in time, except the one that leaves it no busy shard.
func (l *Leader) mayUseAnswer(now time.Duration, report IdleShards) bool {
	progress := l.stagedMoves.progress[report.Node]
	delete(l.stagedMoves.awaitingAnswer, report.Node)
	switch {
	case progress == nil || progress.proposals >= 2*maxStages:
		return false
	case progress.proposals == 0 || progress.proposals < maxStages && now >= progress.nextProposalAt:
		return true
	}
	return !l.leavesBusyShard(report)
}

// leavesBusyShard reports whether the final map takes a shard from the node that is not idle.
func (l *Leader) leavesBusyShard(report IdleShards) bool {
	base, final, idle := l.state.Committed(), l.lastAssignment.finalMap, shardSetOf(report.Shards)
	for shard := range base.Shards(report.Node) {
		if final.Owner(shard) != report.Node && !idle[shard] {
			return true
		}
	}
	return false
}

func shardSetOf(shards []shardmap.Shard) map[shardmap.Shard]bool {
	set := make(map[shardmap.Shard]bool, len(shards))
	for _, shard := range shards {
		set[shard] = true
	}
	return set
}

// isUrgent reports whether the map contains a change that must not wait for answers: it
// excludes a member, or moves a shard whose owner does not defer.
func (l *Leader) isUrgent(assigned *assignment) bool {
	for _, m := range l.state.Proposed().Members() {
		if !assigned.stageMap.IsMember(m.ID) {
			return true
		}
	}
	for _, m := range shardmap.Diff(l.state.Committed(), assigned.stageMap) {
		if !assigned.deferringOwners[m.From] {
			return true
		}
	}
	return false
}

// countProposal counts a proposal for the owners that lose shards.
func (l *Leader) countProposal(now time.Duration, want *shardmap.Map) {
	staged := &l.stagedMoves
	for _, id := range ownersLosingShards(l.state.Committed(), want) {
		if progress := staged.progress[id]; progress != nil {
			progress.nextProposalAt = now + staged.questionInterval(l.options.Pace)<<min(progress.proposals, maxStages)
			progress.proposals++
		}
	}
	staged.withdrawQuestion()
}

// updateProgress removes owners that lose no shards any more, and marks owners whose
// drain-timeout is over. An open round is not changed.
func (l *Leader) updateProgress(now time.Duration, assigned *assignment) {
	staged := &l.stagedMoves
	if l.state.HasOpenProposal() {
		return
	}
	if staged.questionAskedAt >= 0 && now-staged.questionAskedAt > maxAnswerAge {
		for id := range staged.awaitingAnswer {
			staged.progress[id].questions-- // the question was never used
		}
		staged.withdrawQuestion()
		staged.nextQuestionAt = now
		l.forgetIdleShards(func(shardmap.NodeID) bool { return false })
	}
	defer l.forgetIdleShards(func(id shardmap.NodeID) bool { return staged.progress[id] != nil && l.mayDefer(now, l.member(id)) })
	for id := range staged.progress {
		if !slices.Contains(assigned.losingOwners, id) {
			delete(staged.progress, id)
			delete(staged.awaitingAnswer, id)
		}
	}
	if len(staged.progress) == 0 {
		staged.withdrawQuestion()
	}
	for _, progress := range staged.progress {
		progress.timedOut = now-progress.startedAt >= l.options.Pace.DrainTimeout
	}
}

// forgetIdleShards discards the idle shards of owners for which counts returns false. Such an
// answer becomes outdated: a later change that cannot wait for a question would move shards
// for which requests have begun since. Nodes under a gradual drain report continuously.
func (l *Leader) forgetIdleShards(counts func(shardmap.NodeID) bool) {
	if len(l.gradualDrains.idle) == 0 {
		return
	}
	base, policy := l.state.Committed(), l.state.Policy()
	stale := map[shardmap.NodeID]bool{}
	for _, member := range base.Members() {
		stale[member.ID] = !policy.DrainsGradually(member.ID) && !counts(member.ID)
	}
	for shard := range l.gradualDrains.idle {
		if !stale[base.Owner(shard)] {
			continue
		}
		idle := maps.Clone(l.gradualDrains.idle)
		maps.DeleteFunc(idle, func(shard shardmap.Shard, _ bool) bool { return stale[base.Owner(shard)] })
		l.gradualDrains.setIdle(idle)
		return
	}
}

// stagedReason returns the reason of a staged change of which a map has been proposed; empty
// if there is none.
func (l *Leader) stagedReason() string {
	for _, id := range slices.Sorted(maps.Keys(l.stagedMoves.progress)) {
		if progress := l.stagedMoves.progress[id]; progress.proposals > 0 {
			return progress.reason
		}
	}
	return ""
}

// unblockRound asks, once for each proposal, which shards block the open round. The round then
// continues without them. A long request may begin after an owner has answered and before the
// shard is held, and all other moving shards would wait for its end.
func (l *Leader) unblockRound(now time.Duration) {
	staged, last := &l.stagedMoves, l.state.Proposed()
	if !l.ownRoundOpen() || now-l.roundStartedAt < blockedAfter || staged.unblockedEpoch == last.Epoch() {
		return
	}
	staged.unblockedEpoch = last.Epoch()
	for _, id := range ownersLosingShards(l.state.Committed(), last) {
		progress, node := staged.progress[id], l.member(id)
		if progress == nil || l.state.ChangesKeyConfig() || progress.proposals >= maxStages || node.hasCompleteAck(last.Epoch()) || !l.mayDefer(now, node) {
			continue
		}
		staged.questionAskedAt = now
		setKey(&staged.awaitingAnswer, id, true)
		l.emit(AskIdle{Node: id, QuestionNumber: progress.questions, OpenRound: true})
	}
}

// busyReported applies the response of an owner to the question which shards block the open round.
// The busy shards of the owner stay with it for now.
func (l *Leader) busyReported(report IdleShards) {
	delete(l.stagedMoves.awaitingAnswer, report.Node)
	base, idle, idleShards := l.state.Committed(), maps.Clone(l.gradualDrains.idle), shardSetOf(report.Shards)
	maps.DeleteFunc(idle, func(shard shardmap.Shard, _ bool) bool {
		return base.Owner(shard) == report.Node && !idleShards[shard]
	})
	l.gradualDrains.setIdle(idle)
}
