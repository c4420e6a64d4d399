package leader

import (
	"maps"
	"slices"
	"time"

	"shardway/ack"
	"shardway/shardmap"
)

// Options are the fixed properties of one leadership.
type Options struct {
	// Server is the leader's own Raft server id, Term the Raft term it won.
	Server string
	Term   uint64
	Pace   ack.Pace
	// Timing applies until the log contains one. Before the bootstrap entry the leader grants
	// no lease.
	Timing ack.Timing
	// BootstrapExpect is the number of nodes that form the cluster, gateways included. The
	// first map waits for them, up to maxBatchDelay. At most one means no wait. Leaders may
	// use different values, because no guarantee depends on it.
	BootstrapExpect int
	// State is the state of the leader at its election. It may lack entries that earlier
	// leaders committed, until BarrierApplied.
	State *ack.State
}

// Leader decides, for one term, which map to propose, when to commit it, and which node may
// serve until when. A Driver calls it.
type Leader struct {
	options        Options
	maxTiming      ack.Timing // the longest timing for which leases may exist, for every wait of the present step
	electedAt      time.Duration
	barrierApplied bool
	// inheritedMap is the committed map at the time of the barrier.
	inheritedMap     *shardmap.Map
	state            *ack.State
	leases           leaseIssuer
	members          map[shardmap.NodeID]*member
	lastAnswerNumber uint64

	entryInFlight      bool           // an entry was submitted, and it is not known yet whether it is in the log
	submittedAt        time.Duration  // when it was submitted
	committingEpoch    shardmap.Epoch // the map of a submitted commit; zero means none
	pausedUntil        time.Duration  // reconcile pauses until then, after a step down or a failed submit
	roundStartedAt     time.Duration  // when the open proposal of this term was applied
	committedMapSeenAt time.Duration  // when the committed map was first seen
	ownRoundCommitted  bool           // a round of this term is committed
	changeWantedSince  time.Duration  // when a reason for a new map was first seen; negative means none
	dropSeenAt         map[shardmap.NodeID]time.Duration
	lastAssignment     assignment
	// eligibleBuf is the reused buffer of eligibleMembers.
	eligibleBuf         []shardmap.Member
	lastStepAt          time.Duration
	timingSeenAt        time.Duration   // when the present timing was first seen; initially the election
	policyQueue         []policyRequest // policy changes that are not submitted yet
	policyRequests      uint64          // number of requested policy changes
	configEntryInFlight bool            // the submitted entry is neither a proposal nor a commit
	pauseSeenAt         time.Duration   // when the present pause was first seen; initially the election
	quarantines         quarantineTimers
	gradualDrains       gradualDrains
	uncordoned          map[shardmap.NodeID]bool // nodes whose drain ended in this term, until they own shards
	stagedMoves         stagedMoves
	appsHealth          clusterAppHealth
	loadedKeyConfig     keyConfig               // the key configuration that the own node has loaded
	keptShards          map[shardmap.Shard]bool // see findKeptShards
	newMapRequested     bool                    // an operator asked for a new map that is not proposed yet
	inputsVersion       uint64                  // counts changes of zones and of acquire failures in heartbeats
	effects             []Effect
}

// New returns the state machine of a leader that was elected at now. The caller must issue a
// barrier immediately, repeat it if Raft refuses it, and report when one is applied.
func New(options Options, now time.Duration) *Leader {
	l := &Leader{
		options: options, electedAt: now, timingSeenAt: now, pauseSeenAt: now, state: options.State, inheritedMap: options.State.Committed(), changeWantedSince: -1, committedMapSeenAt: now, lastStepAt: now,
		leases:      newLeaseIssuer(options.Server),
		stagedMoves: newStagedMoves(),
		members:     map[shardmap.NodeID]*member{},
		dropSeenAt:  map[shardmap.NodeID]time.Duration{},
	}
	l.maxTiming = l.longestTiming(now)
	if options.State.HasOpenProposal() {
		l.gradualDrains.assumeIdle(options.State)
	}
	return l
}

// Step handles one message and returns the effects to perform. The slice is valid until the
// next Step.
func (l *Leader) Step(now time.Duration, msg Message) []Effect {
	l.effects = l.effects[:0]
	l.maxTiming = l.longestTiming(now)
	l.excuseStall(now)
	switch m := msg.(type) {
	case Tick:
	case TermRead:
		l.termRead(m)
		return l.effects // reconcile runs with the next message, see Driver
	case HeartbeatReceived:
		if answer, ok := l.heartbeatReceived(now, m); ok {
			l.emit(Reply{To: m.Node, Answer: answer})
		}
	case ConnClosed:
		if node := l.members[m.Node]; node != nil && node.heartbeat.Nonce == m.Nonce {
			node.connClosed = true
		}
	case StateApplied:
		l.stateApplied(now, m.State)
	case BarrierApplied:
		l.barrierApplied, l.inheritedMap = true, l.state.Committed()
		l.leases.barrierStart = m.Started
		l.pausedUntil = now // a step down before the barrier did not succeed
	case SubmitFailed:
		// Pause, because the next attempt may fail as fast as this one.
		l.entryInFlight, l.configEntryInFlight, l.committingEpoch, l.pausedUntil = false, false, 0, now+l.options.Pace.Heartbeat
	case Voters:
		l.leases.voters = slices.Clone(m.Servers)
	case CrashEvidence:
		l.crashEvidence(now, m)
	case IdleShards:
		l.idleReported(now, m)
	case ReleasesReceived:
		l.member(m.Node).storeReleases(m.Releases)
	case KeyConfigLoaded:
		l.loadedKeyConfig = keyConfig{m.Text, ack.KeyConfigDigest(m.Text)}
	case BarrierFailed: // handled by Driver
	case NodeRemoved:
		// The operator decided before this message arrived: a live node is not meant.
		if node := l.member(m.Node); !node.hasHeartbeat() || node.isSilent(now, l.options.Pace) || node.hasCrashed() {
			node.removed = true
		}
	case MapRequested:
		l.newMapRequested = true
	}
	l.updateAppsHealth(now)
	l.reconcile(now)
	return l.effects
}

func (l *Leader) emit(effect Effect) { l.effects = append(l.effects, effect) }

// excuseStall excludes the time in which this machine did not run (a pause, a busy CPU) from
// all measurements of silence and delay: messages that arrived in that time are only handled
// now. Takeovers do not depend on it. One heartbeat interval of each stall still counts, so
// silence is noticed even if this machine always runs late.
func (l *Leader) excuseStall(now time.Duration) {
	stall := now - l.lastStepAt - l.options.Pace.Heartbeat
	l.lastStepAt = now
	if stall <= 0 {
		return
	}
	l.roundStartedAt = min(l.roundStartedAt+stall, now)
	if l.stagedMoves.questionAskedAt >= 0 { // a question causes no heartbeat
		l.stagedMoves.questionAskedAt = min(l.stagedMoves.questionAskedAt+stall+l.options.Pace.Heartbeat, now)
	}
	for _, node := range l.members {
		node.lastFreshEchoAt = min(max(node.lastFreshEchoAt, node.firstHeartbeatAt)+stall, now)
		if node.behindSince >= 0 {
			node.behindSince = min(node.behindSince+stall, now)
		}
	}
}

// stepDown transfers leadership to another server. If no server becomes leader within
// dead-after, this leader continues.
func (l *Leader) stepDown(now time.Duration, reason string) {
	l.pausedUntil = now + l.maxTiming.DeadAfter
	l.emit(StepDown{Reason: reason})
}

// member returns the member with the given id, and creates it if necessary.
func (l *Leader) member(id shardmap.NodeID) *member {
	node := l.members[id]
	if node == nil {
		node = &member{id: id, lastGrantAt: l.electedAt, lastFreshEchoAt: l.electedAt, echoedAnswerSentAt: -1, behindSince: -1, healthySince: -1, restartTimes: restartTimes{firstSeenAt: l.electedAt}}
		l.members[id] = node
	}
	return node
}

// termRead confirms the leader itself as of the moment before it read its term. A changed term
// ends all granting permanently.
func (l *Leader) termRead(m TermRead) {
	if m.Term != l.options.Term {
		l.leases.revoked = true
		return
	}
	l.leases.confirm(l.options.Server, m.Before)
}

// stateApplied handles the newest state of the own log. Once the barrier is applied, entries of
// other terms are void, so every new map is one of this leader.
func (l *Leader) stateApplied(now time.Duration, state *ack.State) {
	old := l.state
	l.state = state
	if state.TimingIndex() != old.TimingIndex() {
		l.timingSeenAt = now
	}
	l.maxTiming = l.longestTiming(now)
	l.policyApplied(now, old)
	l.restartsApplied(now, old)
	l.appReportsApplied(old)
	if state.Proposed().Epoch() != old.Proposed().Epoch() {
		l.roundStartedAt = now
		for _, id := range state.DroppedBy(state.Proposed().Epoch()) {
			l.dropSeenAt[id] = now
			// Heartbeats from before the drop do not make it eligible.
			l.member(id).freshStreak = 0
		}
	}
	if state.Committed().Epoch() != old.Committed().Epoch() {
		l.gradualDrains.clear()
		l.stagedMoves.withdrawQuestion()
		maps.DeleteFunc(l.uncordoned, func(id shardmap.NodeID, _ bool) bool { return state.Committed().ShardCount(id) > 0 })
		l.committedMapSeenAt = now
		l.ownRoundCommitted = l.ownRoundCommitted || state.ProposedTerm() == l.options.Term
	}
	if state.HasOpenProposal() && (!old.HasOpenProposal() || state.Proposed().Epoch() != old.Proposed().Epoch()) {
		l.gradualDrains.assumeIdle(state)
		l.stagedMoves.withdrawQuestion()
	}
	switch {
	case l.committingEpoch == 0 && state.Proposed().Epoch() == old.Proposed().Epoch():
	case l.committingEpoch != 0 && state.Committed().Epoch() < l.committingEpoch:
		// A submitted commit blocks leases for the old map until its fate is known.
	default:
		l.entryInFlight, l.committingEpoch = false, 0
	}
}

// ownRoundOpen reports whether a proposal of this term is open.
func (l *Leader) ownRoundOpen() bool {
	return l.state.HasOpenProposal() && l.state.ProposedTerm() == l.options.Term
}

// crashEvidence records that a boot is gone. Evidence about another boot than the present one
// is ignored, also about a higher one, because a wiped data directory starts again at one. An
// equal boot with another nonce is another process. A redial that began before the election is
// ignored: a new process may have started since, with a lease of the previous leader.
func (l *Leader) crashEvidence(now time.Duration, evidence CrashEvidence) {
	if evidence.RedialStartedAt < l.electedAt {
		return
	}
	node := l.member(evidence.Node)
	if node.hasHeartbeat() && (evidence.Boot != node.heartbeat.Boot || evidence.Nonce != node.heartbeat.Nonce) || node.hasCrashed() {
		return
	}
	node.crashedBoot, node.crashedBeforeHeartbeat, node.crashSeenAt = evidence.Boot, !node.hasHeartbeat(), now
}

// MemberView is the state of a node from the view of a leader, for status output.
type MemberView struct {
	Node      shardmap.NodeID
	Heartbeat ack.Heartbeat
	From      string
	// SinceHeartbeat is the age of the last heartbeat; negative if none arrived in this term.
	SinceHeartbeat time.Duration
	Silent         bool
	// LinkWorks means that at least the last three heartbeats of its present process echoed
	// fresh answers of this leader.
	LinkWorks bool
	Crashed   bool
	// Eligible means that it may get shards.
	Eligible bool
	// KeptUnhealthy means that its app is unhealthy, and it keeps its shards, because most apps
	// are unhealthy.
	KeptUnhealthy bool
	// HoldTime is how long its app must be healthy before the node gets shards again, after
	// the app became unhealthy repeatedly. Zero means that the node is not held back.
	HoldTime time.Duration
	// Restarting means that it restarts in place, and its shards wait for it.
	Restarting bool
	// DefersMoves means that shards of it will move to another node, and its busy shards stay for
	// now.
	DefersMoves bool
	// ProcessGone means that every process that used this node id has stopped serving, so
	// another disk may use the id.
	ProcessGone bool
}

// View returns the state of every node from the view of the leader, ordered by id. It omits a
// node that has sent no heartbeat in this term and owns no shards.
func (l *Leader) View(now time.Duration) []MemberView {
	for _, member := range slices.Concat(l.state.Committed().Members(), l.state.Proposed().Members()) {
		l.member(member.ID)
	}
	views := make([]MemberView, 0, len(l.members))
	for _, id := range slices.Sorted(maps.Keys(l.members)) {
		node := l.members[id]
		sinceHeartbeat := time.Duration(-1)
		if node.hasHeartbeat() {
			sinceHeartbeat = now - node.lastHeartbeatAt
		}
		views = append(views, MemberView{
			Node: id, Heartbeat: node.heartbeat, From: node.addr, SinceHeartbeat: sinceHeartbeat,
			Silent: node.isSilent(now, l.options.Pace), LinkWorks: node.linkWorks(now, l.options.Pace), Crashed: node.hasCrashed(), Eligible: l.isEligible(now, node) && !l.isRestarting(node), Restarting: l.isRestarting(node) || l.awaitsReleases(now, node), DefersMoves: l.lastAssignment.deferringOwners[id], ProcessGone: l.processGone(now, node),
			KeptUnhealthy: l.appsHealth.panicMode && node.heartbeat.Unhealthy && l.state.Proposed().IsMember(id), HoldTime: l.holdTime(now, node),
		})
	}
	return views
}

// setKey sets m[k] to v, and allocates the map if necessary.
func setKey[K comparable, V any](m *map[K]V, k K, v V) {
	if *m == nil {
		*m = map[K]V{}
	}
	(*m)[k] = v
}
