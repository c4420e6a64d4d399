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
	// Replicas is the number of standbys of each shard, by service. A service that is missing has none. Leaders
	// may use different values, because standbys only decide where shards move.
	Replicas map[string]int
	// SpreadZones gives all zones the same number of shards. Leaders should use the same value, because a leader with
	// another one moves shards.
	SpreadZones bool
	// State is the state of the leader at its election. It may lack entries that earlier
	// leaders committed, until BarrierApplied.
	State *ack.State
}

// Leader decides, for one term, which map to propose, when to commit it, and which node may
// serve until when. A Driver calls it. Its parts own their state and make their decisions from
// inputs; the Leader submits the entries that result.
type Leader struct {
	options Options
	in      inputs // of the current step

	// Parts.

	members     memberTracker // the state of each node
	leases      leaseIssuer
	timings     timingTracker
	membership  membership // which nodes may be in the next map
	assigned    assignment // the next map
	idle        idleShards
	drains      gradualDrains
	staged      stagedMoves // planned moves of busy shards
	keyConfig   keyConfigChange
	policyQueue policyQueue
	pending     pendingEntry // the entry on its way into the log

	// The round: the change from one committed map to the next.

	committedMapSeenAt time.Duration // when the committed map was first seen
	ownRoundCommitted  bool          // a round of this term is committed
	changeWantedSince  time.Duration // when a reason for a new map was first seen; negative means none
	newMapRequested    bool          // an operator asked to propose the wanted map without a delay
	// pausedUntil is the end of a pause of reconcile after a step down or a failed submit.
	pausedUntil time.Duration

	lastResponseNumber uint64 // number of responses sent to all nodes
	lastStepAt         time.Duration
	effects            []Effect          // of the current step
	memberBuf          []shardmap.Member // reused by updateAssignment
}

// New returns the state machine of a leader that was elected at now. The caller must issue a
// barrier immediately, repeat it if Raft refuses it, and report when one is applied.
func New(options Options, now time.Duration) *Leader {
	l := &Leader{
		options:            options,
		in:                 inputs{now: now, state: options.State, term: options.Term, electedAt: now, pace: options.Pace},
		members:            newMemberTracker(now),
		leases:             newLeaseIssuer(options.Server, options.State.Committed()),
		timings:            timingTracker{configured: options.Timing, changeSeenAt: now},
		membership:         newMembership(),
		staged:             newStagedMoves(),
		policyQueue:        policyQueue{pauseSeenAt: now},
		committedMapSeenAt: now,
		changeWantedSince:  -1,
		lastStepAt:         now,
	}
	l.in.timing = l.timings.waitTiming(now, options.State)
	if options.State.HasOpenProposal() {
		l.idle.deriveFromProposal(options.State)
	}
	return l
}

// Step applies one message and returns the effects to perform. The slice is valid until the
// next Step.
func (l *Leader) Step(now time.Duration, msg Message) []Effect {
	l.effects = l.effects[:0]
	l.in.now = now
	l.in.timing = l.timings.waitTiming(now, l.in.state)
	l.excuseStall()
	if read, ok := msg.(TermRead); ok {
		l.leases.termRead(l.in.term, read)
		return l.effects // reconcile runs with the next message, see Driver
	}
	l.applyMessage(msg)
	l.membership.updateHealth(l.in, &l.members)
	l.reconcile()
	return l.effects
}

// applyMessage applies any message except TermRead.
func (l *Leader) applyMessage(msg Message) {
	switch m := msg.(type) {
	case Tick, TermRead:
	case BarrierFailed: // handled by Driver
	case HeartbeatReceived:
		if answer, ok := l.handleHeartbeat(m); ok {
			l.emit(Reply{To: m.Node, Answer: answer})
		}
	case ConnClosed:
		if node := l.members.byID[m.Node]; node != nil && node.heartbeat.Nonce == m.Nonce {
			node.connClosed = true
		}
	case StateApplied:
		l.applyState(m.State)
	case BarrierApplied:
		l.leases.inheritedMap = l.in.state.Committed()
		l.leases.barrierStart = m.Started
		l.pausedUntil = l.in.now // a step down before the barrier did not succeed
	case SubmitFailed:
		l.pending.clear()
		// Pause, because the next attempt may fail as fast as this one.
		l.pausedUntil = l.in.now + l.in.pace.Heartbeat
	case Servers:
		l.leases.setServers(m)
	case CrashEvidence:
		// A redial that began before the election is ignored: a new process may have started since,
		// with a lease of the previous leader.
		if m.RedialStartedAt >= l.in.electedAt {
			l.members.getOrCreate(m.Node).recordCrash(l.in, m)
		}
	case IdleShards:
		l.recordIdle(m)
	case ReleasesReceived:
		l.members.getOrCreate(m.Node).storeReleases(m.Releases)
	case KeyConfigLoaded:
		l.keyConfig.setLoadedConfig(m)
	case NodeRemoved:
		l.members.getOrCreate(m.Node).recordRemoval(l.in)
	case GossipStatus:
		if node := l.members.byID[m.Node]; node != nil {
			node.recordGossipStatus(l.in.now, m.Failed)
		}
	case MapRequested:
		l.newMapRequested = true
	}
}

// emit adds an effect of the current step.
func (l *Leader) emit(effect Effect) { l.effects = append(l.effects, effect) }

// acceptsRequests reports whether the leader can handle requests of operators: it leads, and has
// applied all entries of earlier leaders.
func (l *Leader) acceptsRequests() bool {
	return l.leases.barrierApplied() && !l.leases.revoked && l.in.state.Bootstrapped()
}

// excuseStall excludes the time in which this machine did not run (a pause, a busy CPU) from
// all measurements of silence and delay: messages that arrived in that time are only handled
// now. Takeovers do not depend on it. One heartbeat interval of each stall still counts, so
// silence is noticed even if this machine always runs late.
func (l *Leader) excuseStall() {
	stall := l.in.now - l.lastStepAt - l.in.pace.Heartbeat
	l.lastStepAt = l.in.now
	if stall <= 0 {
		return
	}
	l.membership.roundStartedAt = min(l.membership.roundStartedAt+stall, l.in.now)
	l.staged.excuseStall(l.in, stall)
	for _, node := range l.members.byID {
		node.excuseStall(l.in.now, stall)
	}
}

// stepDown transfers leadership to another server. If no server becomes leader within
// dead-after, this leader continues.
func (l *Leader) stepDown(reason string) {
	l.pausedUntil = l.in.now + l.in.timing.DeadAfter
	l.emit(StepDown{Reason: reason})
}

// applyState applies the newest state of this node's log. Once the barrier is applied, entries of
// other terms are void, so every new map is one of this leader.
func (l *Leader) applyState(state *ack.State) {
	old := l.in.state
	l.in.state = state
	l.timings.applyState(l.in.now, old, state)
	l.in.timing = l.timings.waitTiming(l.in.now, state)
	l.applyConfig(old)
	proposalIsNew := state.Proposed().Epoch() != old.Proposed().Epoch()
	if proposalIsNew {
		l.membership.applyProposal(l.in, &l.members)
	}
	if state.Committed().Epoch() != old.Committed().Epoch() {
		l.applyCommit()
	}
	if state.HasOpenProposal() && (proposalIsNew || !old.HasOpenProposal()) {
		l.idle.deriveFromProposal(state)
		l.staged.cancelQuery()
	}
	l.pending.applyMap(old, state)
}

// applyConfig applies the changes of the policy, the restarts and the app reports since the state
// old.
func (l *Leader) applyConfig(old *ack.State) {
	l.applyPolicy(old)
	restartsChanged := l.members.applyRestarts(l.in, old)
	if restartsChanged || l.in.state.DeparturesIndex() != old.DeparturesIndex() {
		l.pending.applyConfig()
	}
}

// applyCommit applies a new committed map.
func (l *Leader) applyCommit() {
	l.idle.clear()
	l.staged.cancelQuery()
	l.membership.applyCommit(l.in.state.Committed())
	l.committedMapSeenAt = l.in.now
	if l.in.state.ProposedTerm() == l.in.term {
		l.ownRoundCommitted = true
	}
}

// NeverReceived is the value of MemberView.SinceHeartbeat for a node without a heartbeat in this term.
const NeverReceived time.Duration = -1

// MemberView is the state of a node from the view of a leader, for status output.
type MemberView struct {
	Node      shardmap.NodeID
	Heartbeat ack.Heartbeat
	From      string
	// SinceHeartbeat is the age of the last heartbeat, or NeverReceived if none arrived in this term.
	SinceHeartbeat time.Duration
	Silent         bool
	// LinkWorks is set if at least the last three heartbeats of its current process echoed fresh
	// answers of this leader.
	LinkWorks bool
	Crashed   bool
	// Eligible is set if it may get shards.
	Eligible bool
	// KeptUnhealthy is set if its app is unhealthy, and it keeps its shards, because most apps are
	// unhealthy.
	KeptUnhealthy bool
	// HoldTime is how long its app must be healthy before the node gets shards again, after
	// the app became unhealthy repeatedly. Zero means that the node is not held back.
	HoldTime time.Duration
	// Restarting is set if it restarts in place, and its shards wait for it.
	Restarting bool
	// DefersMoves is set if some of its shards will move to another node, and its busy shards stay
	// for now.
	DefersMoves bool
	// Unreachable is set if most other members report that they cannot connect to the node, and
	// Reporters are the members that report it, ascending.
	Unreachable bool
	Reporters   []shardmap.NodeID
	// ProcessGone is set if every process that used this node id has stopped serving, so another
	// disk may use the id.
	ProcessGone bool
}

// View returns the state of every node from the view of the leader, ordered by id. It omits a
// node that has sent no heartbeat in this term and owns no shards.
func (l *Leader) View(now time.Duration) []MemberView {
	l.in.now = now
	l.members.addMembersOf(l.in.state.Committed())
	l.members.addMembersOf(l.in.state.Proposed())
	views := make([]MemberView, 0, len(l.members.byID))
	for _, id := range slices.Sorted(maps.Keys(l.members.byID)) {
		views = append(views, l.memberView(l.members.byID[id]))
	}
	return views
}

// LeaseLeft returns how long this leader may still grant leases without a further confirmation by a quorum. Zero means
// that it may grant none.
func (l *Leader) LeaseLeft(now time.Duration) time.Duration { return l.leases.grant(now, l.in.timing) }

// memberView returns the state of the node from the view of the leader.
func (l *Leader) memberView(node *member) MemberView {
	view := MemberView{
		Node: node.id, Heartbeat: node.heartbeat, From: node.addr, SinceHeartbeat: NeverReceived,
		Silent:      node.isSilent(l.in),
		LinkWorks:   node.linkWorks(l.in),
		Crashed:     node.hasCrashed(),
		Eligible:    l.membership.isEligible(l.in, node) && !l.in.isRestarting(node),
		HoldTime:    node.requiredHealthyTime(l.in),
		Restarting:  l.in.isRestarting(node) || node.awaitsReleases(l.in),
		Unreachable: node.reportedSince >= 0,
		Reporters:   l.members.reporters(l.in, node.id),
		ProcessGone: node.processGone(l.in),
	}
	_, view.DefersMoves = l.assigned.deferringOwners[node.id]
	view.KeptUnhealthy = l.membership.health.panicMode && node.heartbeat.Unhealthy && l.in.isMember(node.id)
	if node.hasHeartbeat() {
		view.SinceHeartbeat = l.in.now - node.lastHeartbeatAt
	}
	return view
}

// setKey sets m[k] to v, and allocates the map if necessary.
func setKey[K comparable, V any](m *map[K]V, k K, v V) {
	if *m == nil {
		*m = map[K]V{}
	}
	(*m)[k] = v
}
