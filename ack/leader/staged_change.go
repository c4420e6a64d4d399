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
	progress       map[shardmap.NodeID]*ownerProgress
	askedAt        time.Duration // when the open question was asked; negative means that none is open
	nextQuestionAt time.Duration // when the next question is due
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
	return stagedMoves{progress: map[shardmap.NodeID]*ownerProgress{}, askedAt: -1}
}

// withdrawQuestion discards the open question, because the map that it refers to is no longer
// committed or a round has opened.
func (s *stagedMoves) withdrawQuestion() { s.askedAt, s.awaitingAnswer = -1, nil }

// questionInterval returns the time between two questions.
func (s *stagedMoves) questionInterval(p ack.Pace) time.Duration {
	return min(p.DrainTimeout/questionFraction, maxQuestionInterval)
}

// mayDefer reports whether the owner n may temporarily keep busy shards that another node will
// own. This requires a live member with a lease. The shards of every other owner move immediately.
func (l *Leader) mayDefer(now time.Duration, n *member) bool {
	if o := l.stagedMoves.progress[n.id]; o != nil && o.timedOut || l.maxTiming.RebalanceMode == ack.RebalanceStopTheWorld || l.state.Policy().DrainsGradually(n.id) || l.stagedMoves.overdueDrains[n.id] {
		return false
	}
	if d, _ := l.state.Drop(n.id); d.InForce || l.isHeldBack(now, n) || l.isRestarting(n) || n.removed || n.hasCrashed() || l.exclusionCause(now, n) != 0 {
		return false
	}
	if !n.hasHeartbeat() { // a new leader must not move shards only because it has no heartbeat yet (see isEligible)
		return now-l.electedAt < l.maxTiming.DeadAfter
	}
	// Shortly after an election, an owner may not have a lease of this leader yet.
	follows := n.hadLease && n.hasAcked(l.state.Committed().Epoch()) || now-l.electedAt < l.maxTiming.DeadAfter
	return follows && !n.isSilent(now, l.options.Pace) && !n.heartbeat.Unhealthy && !n.heartbeat.Goodbye && !n.heartbeat.Gateway
}

// deferringOwners returns the owners that may keep busy shards which the final map moves; nil
// if there are none.
func (l *Leader) deferringOwners(now time.Duration, givers []shardmap.NodeID) (owners map[shardmap.NodeID]bool) {
	if len(givers) == 0 || l.changesKeyConfigNow(now) {
		return nil
	}
	for _, id := range givers {
		if l.mayDefer(now, l.member(id)) {
			setKey(&owners, id, true)
		}
	}
	return owners
}

// ownersLosingShards returns the owners from which want takes shards, ascending.
func ownersLosingShards(base, want *shardmap.Map) []shardmap.NodeID {
	from := map[shardmap.NodeID]bool{}
	for _, m := range shardmap.Diff(base, want) {
		if m.From != "" {
			from[m.From] = true
		}
	}
	return slices.Sorted(maps.Keys(from))
}

// mayProposeStage reports whether a map may be proposed now. Unless a change cannot wait, the
// leader first asks the owners which of their shards are idle, and uses their answers.
func (l *Leader) mayProposeStage(now time.Duration, a *assignment) bool {
	s := &l.stagedMoves
	if len(a.deferringOwners) == 0 || l.state.HasOpenProposal() || !l.ownRoundCommitted {
		return true
	}
	for id := range a.deferringOwners {
		if s.progress[id] == nil {
			s.progress[id] = &ownerProgress{startedAt: now, reason: l.changeReason(now, a.finalMap)}
			s.nextQuestionAt = now
		}
	}
	if a.isUrgent {
		return true
	}
	if s.askedAt < 0 {
		if now >= s.nextQuestionAt {
			l.askIdle(now, a)
		}
		return false
	}
	if len(s.awaitingAnswer) > 0 {
		if now-s.askedAt >= answerTimeout {
			l.endQuestion()
		}
		return false
	}
	s.askedAt, s.nextQuestionAt = -1, now+s.questionInterval(l.options.Pace)
	return !a.stageMap.SameAs(l.state.Proposed())
}

// askIdle sends a question to all owners with deferred moves. Their earlier answers no longer
// count.
func (l *Leader) askIdle(now time.Duration, a *assignment) {
	s := &l.stagedMoves
	s.askedAt, s.awaitingAnswer = now, maps.Clone(a.deferringOwners)
	l.forgetIdleShards(func(id shardmap.NodeID) bool { return !a.deferringOwners[id] })
	for _, id := range slices.Sorted(maps.Keys(a.deferringOwners)) {
		l.emit(AskIdle{Node: id, QuestionNumber: s.progress[id].questions})
		s.progress[id].questions++
	}
}

// endQuestion closes a question that some owners have not answered in time. After the first
// question, all shards of a silent owner count as idle, so the shards of a node that never
// answers move without stages.
func (l *Leader) endQuestion() {
	s := &l.stagedMoves
	idle := maps.Clone(l.gradualDrains.idle)
	for id := range s.awaitingAnswer {
		if o := s.progress[id]; o == nil || o.questions > 1 {
			continue
		}
		for x := range l.state.Committed().Shards(id) {
			setKey(&idle, x, true)
		}
	}
	l.gradualDrains.setIdle(idle)
	s.awaitingAnswer = nil
}

// mayUseAnswer reports whether the next proposal may use the response of an owner. Proposals for
// one owner are spaced in time, except the one that leaves it no busy shard.
func (l *Leader) mayUseAnswer(now time.Duration, m IdleShards) bool {
	o := l.stagedMoves.progress[m.Node]
	delete(l.stagedMoves.awaitingAnswer, m.Node)
	switch {
	case o == nil || o.proposals >= 2*maxStages:
		return false
	case o.proposals == 0 || o.proposals < maxStages && now >= o.nextProposalAt:
		return true
	}
	return !l.leavesBusyShard(m)
}

// leavesBusyShard reports whether the final map takes a shard from the node that is not idle.
func (l *Leader) leavesBusyShard(m IdleShards) bool {
	base, final, idle := l.state.Committed(), l.lastAssignment.finalMap, shardSetOf(m.Shards)
	for s := range base.Shards(m.Node) {
		if final.Owner(s) != m.Node && !idle[s] {
			return true
		}
	}
	return false
}

func shardSetOf(shards []shardmap.Shard) map[shardmap.Shard]bool {
	set := make(map[shardmap.Shard]bool, len(shards))
	for _, s := range shards {
		set[s] = true
	}
	return set
}

// isUrgent reports whether the map contains a change that must not wait for answers: it
// excludes a member, or moves a shard whose owner does not defer.
func (l *Leader) isUrgent(a *assignment) bool {
	for _, m := range l.state.Proposed().Members() {
		if !a.stageMap.Has(m.ID) {
			return true
		}
	}
	for _, m := range shardmap.Diff(l.state.Committed(), a.stageMap) {
		if !a.deferringOwners[m.From] {
			return true
		}
	}
	return false
}

// countStage counts a proposal for the owners that lose shards.
func (l *Leader) countStage(now time.Duration, want *shardmap.Map) {
	s := &l.stagedMoves
	for _, id := range ownersLosingShards(l.state.Committed(), want) {
		if o := s.progress[id]; o != nil {
			o.nextProposalAt = now + s.questionInterval(l.options.Pace)<<min(o.proposals, maxStages)
			o.proposals++
		}
	}
	s.withdrawQuestion()
}

// updateStages removes owners that lose no shards any more, and marks owners whose
// drain-timeout is over. An open round is not changed.
func (l *Leader) updateStages(now time.Duration, a *assignment) {
	s := &l.stagedMoves
	if l.state.HasOpenProposal() {
		return
	}
	if s.askedAt >= 0 && now-s.askedAt > maxAnswerAge {
		for id := range s.awaitingAnswer {
			s.progress[id].questions-- // the question was never used
		}
		s.withdrawQuestion()
		s.nextQuestionAt = now
		l.forgetIdleShards(func(shardmap.NodeID) bool { return false })
	}
	defer l.forgetIdleShards(func(id shardmap.NodeID) bool { return s.progress[id] != nil && l.mayDefer(now, l.member(id)) })
	for id := range s.progress {
		if !slices.Contains(a.losingOwners, id) {
			delete(s.progress, id)
			delete(s.awaitingAnswer, id)
		}
	}
	if len(s.progress) == 0 {
		s.withdrawQuestion()
	}
	for _, o := range s.progress {
		o.timedOut = now-o.startedAt >= l.options.Pace.DrainTimeout
	}
}

// forgetIdleShards discards the idle shards of owners for which counts returns false. Such an
// answer becomes outdated: a later change that cannot wait for a question would move shards
// for which requests have begun since. Nodes under a gradual drain report continuously.
func (l *Leader) forgetIdleShards(counts func(shardmap.NodeID) bool) {
	if len(l.gradualDrains.idle) == 0 {
		return
	}
	base, p := l.state.Committed(), l.state.Policy()
	stale := map[shardmap.NodeID]bool{}
	for _, m := range base.Members() {
		stale[m.ID] = !p.DrainsGradually(m.ID) && !counts(m.ID)
	}
	for s := range l.gradualDrains.idle {
		if !stale[base.Owner(s)] {
			continue
		}
		idle := maps.Clone(l.gradualDrains.idle)
		maps.DeleteFunc(idle, func(s shardmap.Shard, _ bool) bool { return stale[base.Owner(s)] })
		l.gradualDrains.setIdle(idle)
		return
	}
}

// stagedReason returns the reason of a staged change of which a map has been proposed; empty
// if there is none.
func (l *Leader) stagedReason() string {
	for _, id := range slices.Sorted(maps.Keys(l.stagedMoves.progress)) {
		if o := l.stagedMoves.progress[id]; o.proposals > 0 {
			return o.reason
		}
	}
	return ""
}

// unblockRound asks, once for each proposal, which shards block the open round. The round then
// continues without them. A long request may begin after an owner has answered and before the
// shard is held, and all other moving shards would wait for its end.
func (l *Leader) unblockRound(now time.Duration) {
	s, last := &l.stagedMoves, l.state.Proposed()
	if !l.ownRoundOpen() || now-l.roundStartedAt < blockedAfter || s.unblockedEpoch == last.Epoch() {
		return
	}
	s.unblockedEpoch = last.Epoch()
	for _, id := range ownersLosingShards(l.state.Committed(), last) {
		o, n := s.progress[id], l.member(id)
		if o == nil || l.state.ChangesKeyConfig() || o.proposals >= maxStages || n.hasCompleteAck(last.Epoch()) || !l.mayDefer(now, n) {
			continue
		}
		s.askedAt = now
		setKey(&s.awaitingAnswer, id, true)
		l.emit(AskIdle{Node: id, QuestionNumber: o.questions, OpenRound: true})
	}
}

// busyReported applies the response of an owner to the question which shards block the open round.
// The busy shards of the owner stay with it for now.
func (l *Leader) busyReported(m IdleShards) {
	delete(l.stagedMoves.awaitingAnswer, m.Node)
	base, idle, told := l.state.Committed(), maps.Clone(l.gradualDrains.idle), shardSetOf(m.Shards)
	maps.DeleteFunc(idle, func(s shardmap.Shard, _ bool) bool {
		return base.Owner(s) == m.Node && !told[s]
	})
	l.gradualDrains.setIdle(idle)
}
