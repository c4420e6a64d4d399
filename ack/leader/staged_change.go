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
// to drain-timeout (docs/internals/protocol-moves.md, "Planned moves in stages"). A question asks
// all owners with busy shards which of their shards are idle.
type stagedMoves struct {
	// progress are the nodes with busy shards that will move to another node.
	progress map[shardmap.NodeID]*ownerProgress
	// questionAskedAt is when the open question was asked; negative means that none is open.
	questionAskedAt time.Duration
	nextQuestionAt  time.Duration // when the next question is due
	// awaitingAnswer are the owners that have not answered the open question.
	awaitingAnswer map[shardmap.NodeID]bool
	// unblockedEpoch is the last proposal for which unblockRound asked the owners.
	unblockedEpoch shardmap.Epoch
}

// ownerProgress is the progress of one owner. It begins when the leader first defers a move from
// the owner, and ends when no map takes shards from the owner any more. If the only possible target
// fails, the progress ends, and the time starts again when a target returns. Running requests are
// not aborted for a move to a node that may fail again.
type ownerProgress struct {
	startedAt time.Duration
	// timedOut means that drain-timeout has passed since startedAt, so busy shards move, too.
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

// questionInterval returns the time between two questions.
func questionInterval(pace ack.Pace) time.Duration {
	return min(pace.DrainTimeout/questionFraction, maxQuestionInterval)
}

// begin begins the progress of an owner, and makes a question due.
func (s *stagedMoves) begin(now time.Duration, owner shardmap.NodeID, reason string) {
	s.progress[owner] = &ownerProgress{startedAt: now, reason: reason}
	s.nextQuestionAt = now
}

// hasTimedOut reports whether the busy shards of the owner must move now.
func (s *stagedMoves) hasTimedOut(owner shardmap.NodeID) bool {
	progress := s.progress[owner]
	return progress != nil && progress.timedOut
}

// questionOpen reports whether the owners have been asked, and their answers are not used yet.
func (s *stagedMoves) questionOpen() bool { return s.questionAskedAt >= 0 }

// ask opens a question to the owners, and returns the messages that ask it.
func (s *stagedMoves) ask(now time.Duration, owners map[shardmap.NodeID]bool) []AskIdle {
	s.questionAskedAt, s.awaitingAnswer = now, maps.Clone(owners)
	var messages []AskIdle
	for _, id := range slices.Sorted(maps.Keys(owners)) {
		progress := s.progress[id]
		messages = append(messages, AskIdle{Node: id, QuestionNumber: progress.questions})
		progress.questions++
	}
	return messages
}

// askBlocking asks an owner which of its shards block the open round.
func (s *stagedMoves) askBlocking(now time.Duration, owner shardmap.NodeID) AskIdle {
	s.questionAskedAt = now
	setKey(&s.awaitingAnswer, owner, true)
	return AskIdle{Node: owner, QuestionNumber: s.progress[owner].questions, OpenRound: true}
}

// withdrawQuestion discards the open question, because the map that it refers to is no longer
// committed or a round has opened.
func (s *stagedMoves) withdrawQuestion() { s.questionAskedAt, s.awaitingAnswer = -1, nil }

// withdrawUnusedQuestion discards a question whose answers are too old to be used. It reports
// whether there was one.
func (s *stagedMoves) withdrawUnusedQuestion(now time.Duration) bool {
	if !s.questionOpen() || now-s.questionAskedAt <= maxAnswerAge {
		return false
	}
	for id := range s.awaitingAnswer {
		s.progress[id].questions--
	}
	s.withdrawQuestion()
	s.nextQuestionAt = now
	return true
}

// endWait stops waiting for the owners that have not answered in time. It returns those that did
// not answer their first question. All their shards count as idle, so the shards of a node that
// never answers move without stages.
func (s *stagedMoves) endWait() (unresponsive []shardmap.NodeID) {
	for id := range s.awaitingAnswer {
		if progress := s.progress[id]; progress != nil && progress.questions <= 1 {
			unresponsive = append(unresponsive, id)
		}
	}
	s.awaitingAnswer = nil
	return unresponsive
}

// closeQuestion closes a question whose answers the leader uses now.
func (s *stagedMoves) closeQuestion(in inputs) {
	s.questionAskedAt, s.nextQuestionAt = -1, in.now+questionInterval(in.pace)
}

// drainsStarted handles gradual drains. A node that drains gradually reports its idle shards
// without being asked.
func (s *stagedMoves) drainsStarted(policy *ack.Policy) {
	maps.DeleteFunc(s.awaitingAnswer, func(id shardmap.NodeID, _ bool) bool { return policy.DrainsGradually(id) })
}

// mayUseAnswer records that an owner has answered, and reports whether the next proposal may use
// the answer. Proposals for one owner are spaced in time, except the one that leaves it no busy
// shard. leavesBusyShard means that a proposal by this answer leaves it busy shards.
func (s *stagedMoves) mayUseAnswer(now time.Duration, owner shardmap.NodeID, leavesBusyShard bool) bool {
	progress := s.progress[owner]
	delete(s.awaitingAnswer, owner)
	if progress == nil || progress.proposals >= 2*maxStages {
		return false
	}
	mayLeaveBusyShard := progress.proposals == 0 || progress.proposals < maxStages && now >= progress.nextProposalAt
	return mayLeaveBusyShard || !leavesBusyShard
}

// countProposal counts a proposal for the owners that lose shards.
func (s *stagedMoves) countProposal(in inputs, losingOwners []shardmap.NodeID) {
	for _, id := range losingOwners {
		if progress := s.progress[id]; progress != nil {
			progress.nextProposalAt = in.now + questionInterval(in.pace)<<min(progress.proposals, maxStages)
			progress.proposals++
		}
	}
	s.withdrawQuestion()
}

// update removes owners that lose no shards any more, and marks owners whose drain-timeout is over.
func (s *stagedMoves) update(in inputs, losingOwners []shardmap.NodeID) {
	for id := range s.progress {
		if !slices.Contains(losingOwners, id) {
			delete(s.progress, id)
			delete(s.awaitingAnswer, id)
		}
	}
	if len(s.progress) == 0 {
		s.withdrawQuestion()
	}
	for _, progress := range s.progress {
		progress.timedOut = in.now-progress.startedAt >= in.pace.DrainTimeout
	}
}

// reason returns the reason of a staged change of which a map has been proposed; empty if there is
// none.
func (s *stagedMoves) reason() string {
	for _, id := range slices.Sorted(maps.Keys(s.progress)) {
		if progress := s.progress[id]; progress.proposals > 0 {
			return progress.reason
		}
	}
	return ""
}

// excuseStall excludes a stall of the leader from the age of the open question; see
// Leader.excuseStall. A question causes no heartbeat, so one heartbeat interval is excused, too.
func (s *stagedMoves) excuseStall(in inputs, stall time.Duration) {
	if s.questionOpen() {
		s.questionAskedAt = min(s.questionAskedAt+stall+in.pace.Heartbeat, in.now)
	}
}

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

// isReliable reports whether a node is a live member with a lease and a healthy app, as far as the
// leader knows.
func (r *membership) isReliable(in inputs, node *member) bool {
	drop, _ := in.state.Drop(node.id)
	if drop.InForce || node.isHeldBack(in) || r.exclusionCause(in, node) != 0 {
		return false
	}
	if node.removed || node.hasCrashed() || in.isRestarting(node) {
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

// deferringOwners returns the owners that may keep busy shards which the final map moves; nil
// if there are none.
func (l *Leader) deferringOwners(losingOwners []shardmap.NodeID) (owners map[shardmap.NodeID]bool) {
	if len(losingOwners) == 0 || l.keyConfig.isDueNow(l.in, &l.members, &l.membership) {
		return nil
	}
	for _, id := range losingOwners {
		if l.mayDefer(l.members.get(id)) {
			setKey(&owners, id, true)
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
	if !l.staged.questionOpen() {
		if l.in.now >= l.staged.nextQuestionAt {
			l.askIdle(assigned.deferringOwners)
		}
		return false
	}
	if len(l.staged.awaitingAnswer) > 0 {
		if l.in.now-l.staged.questionAskedAt >= answerTimeout {
			l.idle.addOwned(l.in.state.Committed(), l.staged.endWait())
		}
		return false
	}
	l.staged.closeQuestion(l.in)
	return !assigned.stageMap.HasSameOwners(l.in.state.Proposed())
}

// askIdle sends a question to all owners with deferred moves. Their earlier answers no longer
// count.
func (l *Leader) askIdle(owners map[shardmap.NodeID]bool) {
	l.idle.removeOwned(l.in.state, owners)
	for _, question := range l.staged.ask(l.in.now, owners) {
		l.emit(question)
	}
}

// updateStagedMoves updates the progress of staged moves. An open round is not changed.
func (l *Leader) updateStagedMoves(losingOwners []shardmap.NodeID) {
	if l.in.state.HasOpenProposal() {
		return
	}
	isUnused := l.staged.withdrawUnusedQuestion(l.in.now)
	l.staged.update(l.in, losingOwners)
	if len(l.idle.shards) == 0 {
		return
	}
	outdated := map[shardmap.NodeID]bool{}
	for _, member := range l.in.state.Committed().Members() {
		answerCounts := l.staged.progress[member.ID] != nil && l.mayDefer(l.members.get(member.ID))
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
		progress, node := l.staged.progress[id], l.members.get(id)
		if progress == nil || progress.proposals >= maxStages {
			continue
		}
		if !node.hasCompleteAck(last.Epoch()) && l.mayDefer(node) {
			l.emit(l.staged.askBlocking(l.in.now, id))
		}
	}
}

// idleReported applies a report of idle shards. A node sends it in answer to a question, or without
// one during a gradual drain.
func (l *Leader) idleReported(report IdleShards) {
	isAwaited := l.staged.awaitingAnswer[report.Node]
	if report.MapEpoch != l.in.state.Committed().Epoch() || report.IsAnswer && !isAwaited {
		return
	}
	switch {
	case report.IsAnswer && l.in.state.HasOpenProposal():
		l.blockingShardsReported(report)
	case report.IsAnswer:
		l.answerReported(report)
	case l.in.state.HasOpenProposal() || l.pending.exists():
		// The open round, or a proposal or commit that is being submitted, does not change.
	case l.in.state.Policy().DrainsGradually(report.Node):
		l.idle.replaceOwned(l.in.state.Committed(), report.Node, report.Shards)
	}
}

// answerReported applies the answer to an open question. A proposal withdraws the question, so the
// answer counts even while another entry is being submitted.
func (l *Leader) answerReported(report IdleShards) {
	committed := l.in.state.Committed()
	leavesBusyShard := l.assigned.leavesBusyShard(committed, report.Node, report.Shards)
	if !l.staged.mayUseAnswer(l.in.now, report.Node, leavesBusyShard) {
		report.Shards = nil
	}
	l.idle.replaceOwned(committed, report.Node, report.Shards)
}

// blockingShardsReported applies the answer of an owner to the question which shards block the open
// round. The busy shards of the owner stay with it for now.
func (l *Leader) blockingShardsReported(report IdleShards) {
	if l.in.ownRoundOpen() && !l.pending.exists() {
		delete(l.staged.awaitingAnswer, report.Node)
		l.idle.removeBusy(l.in.state.Committed(), report.Node, report.Shards)
	}
}
