package ack

import (
	"maps"
	"slices"
	"time"

	"shardway/shardmap"
)

const (
	// askShare is the part of drain-timeout between two questions of a staged change, and
	// askMost the longest time between them.
	questionFraction    = 20
	maxQuestionInterval = 250 * time.Millisecond
	// idleWait is how long the leader waits for the owners' answers.
	answerTimeout = 100 * time.Millisecond
	// answerAge is the age of a question above which its answers do not count, because another
	// entry took long to enter the log, or the leader gathered changes.
	maxAnswerAge = 2 * answerTimeout
	// blockedAfter is the age of an open round at which the leader asks what holds it up.
	blockedAfter = 50 * time.Millisecond
	// maxStages bounds the maps that take shards from an owner and leave it busy ones. The time
	// between two of them doubles. A map that leaves no busy shard does not wait for that time;
	// twice maxStages bounds these, for requests may begin while it is proposed.
	maxStages = 10
)

// stages is the progress of planned changes (docs/internals/protocol.md, "Planned moves in stages").
type stagedChange struct {
	// owners have busy shards that another node is to own.
	owners       map[shardmap.NodeID]*stagedOwner
	askedAt      time.Duration // when the open question was put; negative: none is open
	nextQuestion time.Duration // when the next question is due
	// unanswered are the owners that have not answered the open question.
	unanswered map[shardmap.NodeID]bool
	// freed is the proposal whose owners were asked what holds it up; see unblock.
	unblockedEpoch shardmap.Epoch
	// due are drained nodes that were emptied before, and had their time.
	overdueDrains map[shardmap.NodeID]bool
}

// stagedOwner is the progress of one owner. It begins when the leader first defers a move of
// the owner, and ends when no map is to take shards from it any more.
type stagedOwner struct {
	began time.Duration
	// over: drain-timeout has passed since began, so busy shards move, too.
	timedOut     bool
	questions    int           // number of questions put to it
	proposals    int           // number of maps proposed that take shards from it
	nextProposal time.Duration // the next map that leaves it shards is due then
	// reason is the cause of the change, in the words of metrics.
	reason string
}

func newStagedChange() stagedChange {
	return stagedChange{owners: map[shardmap.NodeID]*stagedOwner{}, askedAt: -1}
}

// void withdraws the open question: the owners were asked by a map that routes no more, or a
// round is open.
func (s *stagedChange) withdrawQuestion() { s.askedAt, s.unanswered = -1, nil }

// pause is the time between two questions.
func (s *stagedChange) questionInterval(p Pace) time.Duration {
	return min(p.DrainTimeout/questionFraction, maxQuestionInterval)
}

// defers reports whether the owner n may keep busy shards for a while that another node is
// to own: n is a live member that holds a lease. The shards of every other owner move at once.
func (l *Leader) mayDefer(now time.Duration, n *member) bool {
	if o := l.stages.owners[n.id]; o != nil && o.timedOut || l.maxTiming.Pause == PauseCluster || l.state.Policy().drainsGradually(n.id) || l.stages.overdueDrains[n.id] {
		return false
	}
	if d, _ := l.state.Drop(n.id); d.InForce || l.isHeldBack(now, n) || l.isRestarting(n) || n.removed || n.crashed() || l.exclusionCause(now, n) != 0 {
		return false
	}
	if !n.heard() { // as in eligible: an election alone moves nothing
		return now-l.elected < l.maxTiming.DeadAfter
	}
	// Just after an election an owner may have no lease of this leader yet.
	follows := n.hadLease && n.hasAcked(l.state.Committed().Epoch()) || now-l.elected < l.maxTiming.DeadAfter
	return follows && !n.silent(now, l.o.Pace) && !n.heartbeat.Unhealthy && !n.heartbeat.Goodbye && !n.heartbeat.Gateway
}

// staged returns the owners that may keep busy shards which the final map moves; nil if there
// are none.
func (l *Leader) deferringOwners(now time.Duration, givers []shardmap.NodeID) (owners map[shardmap.NodeID]bool) {
	if len(givers) == 0 || l.changesKeysNow(now) {
		return nil
	}
	for _, id := range givers {
		if l.mayDefer(now, l.member(id)) {
			setKey(&owners, id, true)
		}
	}
	return owners
}

// givers returns the owners from which a map takes shards, ascending.
func ownersLosingShards(base, want *shardmap.Map) []shardmap.NodeID {
	from := map[shardmap.NodeID]bool{}
	for _, m := range shardmap.Diff(base, want) {
		if m.From != "" {
			from[m.From] = true
		}
	}
	return slices.Sorted(maps.Keys(from))
}

// stageDue reports whether a map may be proposed now. Unless something cannot wait, the
// leader first asks the owners which of their shards are idle, and proposes with their answers.
func (l *Leader) mayProposeStage(now time.Duration, a *assignment) bool {
	s := &l.stages
	if len(a.staged) == 0 || l.state.Open() || !l.roundDone {
		return true
	}
	for id := range a.staged {
		if s.owners[id] == nil {
			s.owners[id] = &stagedOwner{began: now, reason: l.changeReason(now, a.final)}
			s.nextQuestion = now
		}
	}
	if a.cannotWait {
		return true
	}
	if s.askedAt < 0 {
		if now >= s.nextQuestion {
			l.askIdle(now, a)
		}
		return false
	}
	if len(s.unanswered) > 0 {
		if now-s.askedAt >= answerTimeout {
			l.endQuestion()
		}
		return false
	}
	s.askedAt, s.nextQuestion = -1, now+s.questionInterval(l.o.Pace)
	return !a.want.SameAs(l.state.Last())
}

// askIdle puts a question to all owners that have moves deferred. What they answered before
// does not count any more.
func (l *Leader) askIdle(now time.Duration, a *assignment) {
	s := &l.stages
	s.askedAt, s.unanswered = now, maps.Clone(a.staged)
	l.forgetAnswers(func(id shardmap.NodeID) bool { return !a.staged[id] })
	for _, id := range slices.Sorted(maps.Keys(a.staged)) {
		l.emit(AskIdle{Node: id, Number: s.owners[id].questions})
		s.owners[id].questions++
	}
}

// unanswered ends a question that not all owners have answered in time. After the first
// question all shards of a silent owner count as idle: a node that never answers has its
// shards moved as if nothing were staged.
func (l *Leader) endQuestion() {
	s := &l.stages
	idle := maps.Clone(l.gradual.idle)
	for id := range s.unanswered {
		if o := s.owners[id]; o == nil || o.questions > 1 {
			continue
		}
		for x := range l.state.Committed().Shards(id) {
			setKey(&idle, x, true)
		}
	}
	l.gradual.setIdle(idle)
	s.unanswered = nil
}

// answered takes the answer of a staged owner, and reports whether a map may go by it. The
// maps of an owner have some time between them, but the one that leaves it no busy shard
// waits for nothing.
func (l *Leader) mayUseAnswer(now time.Duration, m IdleShards) bool {
	o := l.stages.owners[m.Node]
	delete(l.stages.unanswered, m.Node)
	switch {
	case o == nil || o.proposals >= 2*maxStages:
		return false
	case o.proposals == 0 || o.proposals < maxStages && now >= o.nextProposal:
		return true
	}
	return !l.leavesBusy(m)
}

// leavesBusy reports that the final map takes a shard from the node that is not idle.
func (l *Leader) leavesBusy(m IdleShards) bool {
	base, final, idle := l.state.Committed(), l.lastAssignment.final, shardSetOf(m.Shards)
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

// urgent reports whether the map has something that must not wait for an answer: it leaves out
// a member, or moves a shard whose owner is not staged.
func (l *Leader) cannotWait(a *assignment) bool {
	for _, m := range l.state.Last().Members() {
		if !a.want.Has(m.ID) {
			return true
		}
	}
	for _, m := range shardmap.Diff(l.state.Committed(), a.want) {
		if !a.staged[m.From] {
			return true
		}
	}
	return false
}

// stageProposed counts a map.
func (l *Leader) countStage(now time.Duration, want *shardmap.Map) {
	s := &l.stages
	for _, id := range ownersLosingShards(l.state.Committed(), want) {
		if o := s.owners[id]; o != nil {
			o.nextProposal = now + s.questionInterval(l.o.Pace)<<min(o.proposals, maxStages)
			o.proposals++
		}
	}
	s.withdrawQuestion()
}

// stageLook forgets owners from which no shard is to be taken any more, and has busy shards
// moved when drain-timeout is over. A round that is open goes on as it began.
func (l *Leader) updateStages(now time.Duration, a *assignment) {
	s := &l.stages
	if l.state.Open() {
		return
	}
	if s.askedAt >= 0 && now-s.askedAt > maxAnswerAge {
		for id := range s.unanswered {
			s.owners[id].questions-- // the next question is its first one again
		}
		s.withdrawQuestion()
		s.nextQuestion = now
		l.forgetAnswers(func(shardmap.NodeID) bool { return false })
	}
	defer l.forgetAnswers(func(id shardmap.NodeID) bool { return s.owners[id] != nil && l.mayDefer(now, l.member(id)) })
	for id := range s.owners {
		if !slices.Contains(a.losing, id) {
			delete(s.owners, id)
			delete(s.unanswered, id)
		}
	}
	if len(s.owners) == 0 {
		s.withdrawQuestion()
	}
	for _, o := range s.owners {
		o.timedOut = now-o.began >= l.o.Pace.DrainTimeout
	}
}

// forgetAnswers forgets which shards were idle at owners whose answers do not count any more.
// Such an answer grows old: a later change that cannot wait for a question would move shards
// for which requests have begun since. Nodes that are being emptied answer all the time.
func (l *Leader) forgetAnswers(counts func(shardmap.NodeID) bool) {
	if len(l.gradual.idle) == 0 {
		return
	}
	base, p := l.state.Committed(), l.state.Policy()
	stale := map[shardmap.NodeID]bool{}
	for _, m := range base.Members() {
		stale[m.ID] = !p.drainsGradually(m.ID) && !counts(m.ID)
	}
	for s := range l.gradual.idle {
		if !stale[base.Owner(s)] {
			continue
		}
		idle := maps.Clone(l.gradual.idle)
		maps.DeleteFunc(idle, func(s shardmap.Shard, _ bool) bool { return stale[base.Owner(s)] })
		l.gradual.setIdle(idle)
		return
	}
}

// stageReason returns the cause of a change of which a map has been proposed; empty: none has.
func (l *Leader) stagedReason() string {
	for _, id := range slices.Sorted(maps.Keys(l.stages.owners)) {
		if o := l.stages.owners[id]; o.proposals > 0 {
			return o.reason
		}
	}
	return ""
}

// unblock has an open round go on without shards whose requests hold it up, once for each
// proposal. A long request may begin between an owner's answer and the hold, and all other
// shards that move would wait for its end.
func (l *Leader) unblockRound(now time.Duration) {
	s, last := &l.stages, l.state.Last()
	if !l.ownRoundOpen() || now-l.roundBegan < blockedAfter || s.unblockedEpoch == last.Epoch() {
		return
	}
	s.unblockedEpoch = last.Epoch()
	for _, id := range ownersLosingShards(l.state.Committed(), last) {
		o, n := s.owners[id], l.member(id)
		if o == nil || l.state.ChangesKeys() || o.proposals >= maxStages || n.ackCounts(last.Epoch()) || !l.mayDefer(now, n) {
			continue
		}
		s.askedAt = now
		setKey(&s.unanswered, id, true)
		l.emit(AskIdle{Node: id, Number: o.questions, Held: true})
	}
}

// stillRuns takes the answer of an owner that was asked what holds the open round up: shards
// that are not idle stay.
func (l *Leader) busyReported(m IdleShards) {
	delete(l.stages.unanswered, m.Node)
	base, idle, told := l.state.Committed(), maps.Clone(l.gradual.idle), shardSetOf(m.Shards)
	maps.DeleteFunc(idle, func(s shardmap.Shard, _ bool) bool {
		return base.Owner(s) == m.Node && !told[s]
	})
	l.gradual.setIdle(idle)
}
