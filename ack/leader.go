package ack

import (
	"maps"
	"slices"
	"time"

	"shardway/shardmap"
)

// LeaderOptions are the fixed facts of one leadership.
type LeaderOptions struct {
	// Server is the leader's own Raft server id, Term the Raft term it won.
	Server string
	Term   uint64
	Pace   Pace
	// Timing is what it goes by as long as the log tells none: before the birth it
	// grants nothing.
	Timing Timing
	// BootstrapExpect is how many nodes found the cluster together, gateways included: the
	// first map waits for them, a little. At most one: it waits for nobody. It is the
	// leader's own setting, because nothing that is promised rests on it.
	BootstrapExpect int
	// State is the leader's state at its election, which may lack entries that
	// earlier leaders committed: BarrierApplied tells when it does not any more.
	State *State
}

// Leader decides, for one term, which map to propose, when it may be committed,
// and who may serve until when.
type Leader struct {
	o              LeaderOptions
	maxTiming      Timing // what every wait of the present step goes by, see waits
	elected        time.Duration
	barrierApplied bool
	// inherited is the map that routed when the barrier was applied.
	inherited   *shardmap.Map
	state       *State
	leases      leaseIssuer
	members     map[shardmap.NodeID]*member
	answerCount uint64

	submitting        bool           // an entry is on its way into the log
	submitted         time.Duration  // since then
	committing        shardmap.Epoch // it is the commit of this map; zero: it is none
	resumeAt          time.Duration  // nothing is decided before: a step down or a submit that failed has time to work
	roundBegan        time.Duration  // when the open round of this term was applied
	committedAt       time.Duration  // when the present map was seen committed
	roundDone         bool           // a round of this term was committed
	changeWantedSince time.Duration  // when a reason for a new map was first seen; negative: none
	droppedAt         map[shardmap.NodeID]time.Duration
	lastAssignment    assignment
	// eligibleNow is the scratch of members.
	membersBuf       []shardmap.Member
	lastStep         time.Duration    // the last step
	timingSeenAt     time.Duration    // when the timing in force was first seen; before: the election
	policyQueue      []policyRequest  // changes of the policy that wait
	policyRequests   uint64           // how many were asked for
	submittingChange bool             // one is on its way into the log
	pauseSeenAt      time.Duration    // when the pause in force was first seen; before: the election
	quarantines      quarantineTimers // of quarantines
	gradual          gradualDrains
	stages           stagedChange
	appsHealth       clusterAppHealth
	keys             loadedKeys              // the key configuration that the own node has loaded; empty: none
	keptShards       map[shardmap.Shard]bool // see kept
	inputsVersion    uint64                  // counts what was heard anew of zones, and of what apps do not acquire
	effects          []Effect
}

// NewLeader returns the machine of a leader elected at now. The caller issues a
// barrier at once, again when Raft refuses it, and tells when one was applied.
func NewLeader(o LeaderOptions, now time.Duration) *Leader {
	l := &Leader{
		o: o, elected: now, timingSeenAt: now, pauseSeenAt: now, state: o.State, inherited: o.State.Committed(), changeWantedSince: -1, committedAt: now, lastStep: now,
		leases:    newLeaseIssuer(o.Server),
		stages:    newStagedChange(),
		members:   map[shardmap.NodeID]*member{},
		droppedAt: map[shardmap.NodeID]time.Duration{},
	}
	l.maxTiming = l.longestTiming(now)
	if o.State.Open() {
		l.gradual.assumeIdle(o.State)
	}
	return l
}

// Step takes one message and returns what it calls for. The slice is valid until
// the next Step.
func (l *Leader) Step(now time.Duration, msg Message) []Effect {
	l.effects = l.effects[:0]
	l.maxTiming = l.longestTiming(now)
	l.excuseStall(now)
	switch m := msg.(type) {
	case Tick:
	case TermRead:
		l.termRead(m)
		return l.effects // what it precedes is looked at with it, see Turn
	case HeartbeatReceived:
		if a, ok := l.heartbeatReceived(now, m); ok {
			l.emit(Reply{To: m.Node, Answer: a}) // nothing else is answered
		}
	case ConnClosed:
		if n := l.members[m.Node]; n != nil && n.heartbeat.Nonce == m.Nonce {
			n.closed = true
		}
	case StateApplied:
		l.stateApplied(now, m.State)
	case BarrierApplied:
		l.barrierApplied, l.inherited = true, l.state.Committed()
		l.leases.barrierStart = m.Started
		l.resumeAt = now // whoever was asked to lead in its place has not done so yet
	case SubmitFailed:
		// A pause, because the next try may fail as fast as this one.
		l.submitting, l.submittingChange, l.committing, l.resumeAt = false, false, 0, now+l.o.Pace.Heartbeat
	case Voters:
		l.leases.voters = slices.Clone(m.Servers)
	case CrashEvidence:
		l.crashEvidence(now, m)
	case IdleShards:
		l.idleReported(now, m)
	case ReleasesReceived:
		l.member(m.Node).storeReleases(m.Releases)
	case KeysLoaded:
		l.keys = loadedKeys{m.Text, KeysDigest(m.Text)}
	case BarrierFailed: // the Turn's
	case NodeRemoved:
		// The word was given before it came here: who speaks now is not meant.
		if n := l.member(m.Node); !n.heard() || n.silent(now, l.o.Pace) || n.crashed() {
			n.removed = true
		}
	}
	l.updateAppsHealth(now)
	l.reconcile(now)
	return l.effects
}

func (l *Leader) emit(e Effect) { l.effects = append(l.effects, e) }

// stalled lets a time in which this machine was not run (a pause, a busy CPU)
// pass for nobody's silence or delay: what came in meanwhile is only read now.
// What may be taken from whom does not depend on it. One heartbeat of each such
// time counts, so that silence is noticed however badly this machine is run.
func (l *Leader) excuseStall(now time.Duration) {
	gap := now - l.lastStep - l.o.Pace.Heartbeat
	l.lastStep = now
	if gap <= 0 {
		return
	}
	l.roundBegan = min(l.roundBegan+gap, now)
	if l.stages.askedAt >= 0 { // no heartbeat comes of a question
		l.stages.askedAt = min(l.stages.askedAt+gap+l.o.Pace.Heartbeat, now)
	}
	for _, n := range l.members {
		n.lastFreshEcho = min(max(n.lastFreshEcho, n.firstHeard)+gap, now)
		if n.behindSince >= 0 {
			n.behindSince = min(n.behindSince+gap, now)
		}
	}
}

// stepDown gives up leadership. If nobody takes it over, this leader goes on
// after a while.
func (l *Leader) stepDown(now time.Duration, reason string) {
	l.resumeAt = now + l.maxTiming.DeadAfter
	l.emit(StepDown{Reason: reason})
}

// node returns what is known of id, a node never heard if nothing is.
func (l *Leader) member(id shardmap.NodeID) *member {
	n := l.members[id]
	if n == nil {
		n = &member{id: id, lastGrant: l.elected, lastFreshEcho: l.elected, echoedAt: -1, behindSince: -1, healthySince: -1, restart: restartTimes{since: l.elected}}
		l.members[id] = n
	}
	return n
}

// termRead counts the leader itself as of the moment before it read its term. A
// changed term ends all granting for good.
func (l *Leader) termRead(m TermRead) {
	if m.Term != l.o.Term {
		l.leases.revoked = true
		return
	}
	l.leases.confirm(l.o.Server, m.Before)
}

// applied takes the newest state of the own log. Entries of other terms change
// nothing any more once the barrier is applied, so a new map is the own one.
func (l *Leader) stateApplied(now time.Duration, s *State) {
	old := l.state
	l.state = s
	if s.TimingSince() != old.TimingSince() {
		l.timingSeenAt = now
	}
	l.maxTiming = l.longestTiming(now)
	l.policyApplied(now, old)
	l.restartsApplied(now, old)
	l.appReportsApplied(old)
	if s.Last().Epoch() != old.Last().Epoch() {
		l.roundBegan = now
		for _, id := range slices.Sorted(maps.Keys(s.drops)) {
			if d := s.drops[id]; d.InForce && d.Epoch == s.Last().Epoch() {
				l.droppedAt[id] = now
				// What was heard before does not bring it back.
				l.member(id).freshStreak = 0
			}
		}
	}
	if s.Committed().Epoch() != old.Committed().Epoch() {
		l.gradual.clear()
		l.stages.withdrawQuestion()
		l.committedAt = now
		l.roundDone = l.roundDone || s.LastTerm() == l.o.Term
	}
	if s.Open() && (!old.Open() || s.Last().Epoch() != old.Last().Epoch()) {
		l.gradual.assumeIdle(s)
		l.stages.withdrawQuestion()
	}
	switch {
	case l.committing == 0 && s.Last().Epoch() == old.Last().Epoch():
	case l.committing != 0 && s.Committed().Epoch() < l.committing:
		// A commit on its way holds back leases until its fate is known.
	default:
		l.submitting, l.committing = false, 0
	}
}

// mine reports whether the open proposal, if any, is of this term.
func (l *Leader) ownRoundOpen() bool { return l.state.Open() && l.state.LastTerm() == l.o.Term }

// evidence notes that a boot is gone. What names another boot than the one that
// is heard says nothing about that one: also a higher one, for an emptied data
// directory counts from the start. For the same reason an equal boot may be
// another process's. A redial that began before the election may have found nobody
// where another process has begun since, with a lease of the leader before.
func (l *Leader) crashEvidence(now time.Duration, m CrashEvidence) {
	if m.Began < l.elected {
		return
	}
	n := l.member(m.Node)
	if n.heard() && (m.Boot != n.heartbeat.Boot || m.Nonce != n.heartbeat.Nonce) || n.crashed() {
		return
	}
	n.crashedBoot, n.crashedUnheard, n.crashSeenAt = m.Boot, !n.heard(), now
}

// MemberView is what a leader knows of a node, for people to read.
type MemberView struct {
	Node      shardmap.NodeID
	Heartbeat Heartbeat
	From      string
	// HeardAgo is the age of its last heartbeat; negative if none came in this
	// term.
	SinceHeartbeat time.Duration
	Silent         bool
	// Echoes: the last three heartbeats of its present process, at least, echoed
	// answers of this leader that were fresh.
	LinkWorks bool
	Crashed   bool
	// Eligible: it may be given shards.
	Eligible bool
	// Kept: its app is unhealthy, and it keeps its shards, because most apps are.
	KeptUnhealthy bool
	// Held is for how long its app must be healthy before it gets shards again, because that
	// became unhealthy again and again; zero: it is not held back.
	HoldTime time.Duration
	// Absent: it restarts in place, and is waited for.
	Restarting bool
	// Staged: another node is to own shards of it, and those that are busy stay for now.
	Staged bool
	// Over: no process that had this name until now admits or runs anything any
	// more, so that another disk may take the name.
	ProcessGone bool
}

// View returns what the leader knows of every node, ordered by id. Who is not in it
// has not been heard in this term and owns nothing.
func (l *Leader) View(now time.Duration) []MemberView {
	for _, m := range slices.Concat(l.state.Committed().Members(), l.state.Last().Members()) {
		l.member(m.ID)
	}
	v := make([]MemberView, 0, len(l.members))
	for _, id := range slices.Sorted(maps.Keys(l.members)) {
		n := l.members[id]
		ago := time.Duration(-1)
		if n.heard() {
			ago = now - n.lastHeard
		}
		v = append(v, MemberView{
			Node: id, Heartbeat: n.heartbeat, From: n.addr, SinceHeartbeat: ago,
			Silent: n.silent(now, l.o.Pace), LinkWorks: n.linkWorks(now, l.o.Pace), Crashed: n.crashed(), Eligible: l.eligible(now, n) && !l.isRestarting(n), Restarting: l.isRestarting(n) || l.awaitsReleases(now, n), Staged: l.lastAssignment.staged[id], ProcessGone: l.processGone(now, n),
			KeptUnhealthy: l.appsHealth.panicMode && n.heartbeat.Unhealthy && l.state.Last().Has(id), HoldTime: l.holdTime(now, n),
		})
	}
	return v
}
