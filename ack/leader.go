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
	o       LeaderOptions
	t       Timing // what every wait of the present step goes by, see waits
	elected time.Duration
	barrier bool
	// inherited is the map that routed when the barrier was applied.
	inherited *shardmap.Map
	state     *State
	grants    Grantor
	nodes     map[shardmap.NodeID]*member
	answers   uint64

	submitting bool           // an entry is on its way into the log
	submitted  time.Duration  // since then
	committing shardmap.Epoch // it is the commit of this map; zero: it is none
	resumeAt   time.Duration  // nothing is decided before: a step down or a submit that failed has time to work
	began      time.Duration  // when the open round of this term was applied
	committed  time.Duration  // when the present map was seen committed
	settled    bool           // a round of this term was committed
	wantSince  time.Duration  // when a reason for a new map was first seen; negative: none
	droppedAt  map[shardmap.NodeID]time.Duration
	memo       assignment
	// eligibleNow is the scratch of members.
	eligibleNow []shardmap.Member
	stepped     time.Duration // the last step
	retimed     time.Duration // when the timing in force was first seen; before: the election
	line        []asked       // changes of the policy that wait
	asks        uint64        // how many were asked for
	amending    bool          // one is on its way into the log
	pausedAt    time.Duration // when the pause in force was first seen; before: the election
	ends        ends          // of quarantines
	empties     empties
	stages      stages
	apps        appHealth
	keys        loadedKeys              // the key configuration that the own node has loaded; empty: none
	keptNow     map[shardmap.Shard]bool // see kept
	zoned       uint64                  // counts what was heard anew of zones, and of what apps do not acquire
	out         []Effect
}

// NewLeader returns the machine of a leader elected at now. The caller issues a
// barrier at once, again when Raft refuses it, and tells when one was applied.
func NewLeader(o LeaderOptions, now time.Duration) *Leader {
	l := &Leader{
		o: o, elected: now, retimed: now, pausedAt: now, state: o.State, inherited: o.State.Committed(), wantSince: -1, committed: now, stepped: now,
		grants:    newGrantor(o.Server),
		stages:    newStages(),
		nodes:     map[shardmap.NodeID]*member{},
		droppedAt: map[shardmap.NodeID]time.Duration{},
	}
	l.t = l.waits(now)
	if o.State.Open() {
		l.empties.goOn(o.State)
	}
	return l
}

// Step takes one message and returns what it calls for. The slice is valid until
// the next Step.
func (l *Leader) Step(now time.Duration, msg Message) []Effect {
	l.out = l.out[:0]
	l.t = l.waits(now)
	l.stalled(now)
	switch m := msg.(type) {
	case Tick:
	case TermRead:
		l.termRead(m)
		return l.out // what it precedes is looked at with it, see Turn
	case Heard:
		if a, ok := l.heard(now, m); ok {
			l.emit(Reply{To: m.Node, Answer: a}) // nothing else is answered
		}
	case Closed:
		if n := l.nodes[m.Node]; n != nil && n.beat.Nonce == m.Nonce {
			n.closed = true
		}
	case Applied:
		l.applied(now, m.State)
	case BarrierApplied:
		l.barrier, l.inherited = true, l.state.Committed()
		l.grants.floor = m.Started
		l.resumeAt = now // whoever was asked to lead in its place has not done so yet
	case SubmitFailed:
		// A pause, because the next try may fail as fast as this one.
		l.submitting, l.amending, l.committing, l.resumeAt = false, false, 0, now+l.o.Pace.Heartbeat
	case Voters:
		l.grants.voters = slices.Clone(m.Servers)
	case Evidence:
		l.evidence(now, m)
	case Idle:
		l.idleAt(now, m)
	case Delivered:
		l.node(m.Node).took(m.Releases)
	case KeysLoaded:
		l.keys = loadedKeys{m.Text, KeysDigest(m.Text)}
	case BarrierFailed: // the Turn's
	case Remove:
		// The word was given before it came here: who speaks now is not meant.
		if n := l.node(m.Node); !n.heard() || n.silent(now, l.o.Pace) || n.crashed() {
			n.removed = true
		}
	}
	l.lookAtApps(now)
	l.reconcile(now)
	return l.out
}

func (l *Leader) emit(e Effect) { l.out = append(l.out, e) }

// stalled lets a time in which this machine was not run (a pause, a busy CPU)
// pass for nobody's silence or delay: what came in meanwhile is only read now.
// What may be taken from whom does not depend on it. One heartbeat of each such
// time counts, so that silence is noticed however badly this machine is run.
func (l *Leader) stalled(now time.Duration) {
	gap := now - l.stepped - l.o.Pace.Heartbeat
	l.stepped = now
	if gap <= 0 {
		return
	}
	l.began = min(l.began+gap, now)
	if l.stages.asked >= 0 { // no heartbeat comes of a question
		l.stages.asked = min(l.stages.asked+gap+l.o.Pace.Heartbeat, now)
	}
	for _, n := range l.nodes {
		n.lastFresh = min(max(n.lastFresh, n.firstHeard)+gap, now)
		if n.behindSince >= 0 {
			n.behindSince = min(n.behindSince+gap, now)
		}
	}
}

// stepDown gives up leadership. If nobody takes it over, this leader goes on
// after a while.
func (l *Leader) stepDown(now time.Duration, reason string) {
	l.resumeAt = now + l.t.DeadAfter
	l.emit(StepDown{Reason: reason})
}

// node returns what is known of id, a node never heard if nothing is.
func (l *Leader) node(id shardmap.NodeID) *member {
	n := l.nodes[id]
	if n == nil {
		n = &member{id: id, lastGrant: l.elected, lastFresh: l.elected, echoAt: -1, behindSince: -1, healthySince: -1, away: away{since: l.elected}}
		l.nodes[id] = n
	}
	return n
}

// termRead counts the leader itself as of the moment before it read its term. A
// changed term ends all granting for good.
func (l *Leader) termRead(m TermRead) {
	if m.Term != l.o.Term {
		l.grants.revoked = true
		return
	}
	l.grants.confirm(l.o.Server, m.Before)
}

// applied takes the newest state of the own log. Entries of other terms change
// nothing any more once the barrier is applied, so a new map is the own one.
func (l *Leader) applied(now time.Duration, s *State) {
	old := l.state
	l.state = s
	if s.TimingSince() != old.TimingSince() {
		l.retimed = now
	}
	l.t = l.waits(now)
	l.amended(now, old)
	l.absented(now, old)
	l.reported(old)
	if s.Last().Epoch() != old.Last().Epoch() {
		l.began = now
		for _, id := range slices.Sorted(maps.Keys(s.drops)) {
			if d := s.drops[id]; d.InForce && d.Epoch == s.Last().Epoch() {
				l.droppedAt[id] = now
				// What was heard before does not bring it back.
				l.node(id).streak = 0
			}
		}
	}
	if s.Committed().Epoch() != old.Committed().Epoch() {
		l.empties.forget()
		l.stages.void()
		l.committed = now
		l.settled = l.settled || s.LastTerm() == l.o.Term
	}
	if s.Open() && (!old.Open() || s.Last().Epoch() != old.Last().Epoch()) {
		l.empties.goOn(s)
		l.stages.void()
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
func (l *Leader) mine() bool { return l.state.Open() && l.state.LastTerm() == l.o.Term }

// evidence notes that a boot is gone. What names another boot than the one that
// is heard says nothing about that one: also a higher one, for an emptied data
// directory counts from the start. For the same reason an equal boot may be
// another process's. A redial that began before the election may have found nobody
// where another process has begun since, with a lease of the leader before.
func (l *Leader) evidence(now time.Duration, m Evidence) {
	if m.Began < l.elected {
		return
	}
	n := l.node(m.Node)
	if n.heard() && (m.Boot != n.beat.Boot || m.Nonce != n.beat.Nonce) || n.crashed() {
		return
	}
	n.evidence, n.unknownGone, n.evidenceAt = m.Boot, !n.heard(), now
}

// MemberView is what a leader knows of a node, for people to read.
type MemberView struct {
	Node      shardmap.NodeID
	Heartbeat Heartbeat
	From      string
	// HeardAgo is the age of its last heartbeat; negative if none came in this
	// term.
	HeardAgo time.Duration
	Silent   bool
	// Echoes: the last three heartbeats of its present process, at least, echoed
	// answers of this leader that were fresh.
	Echoes  bool
	Crashed bool
	// Eligible: it may be given shards.
	Eligible bool
	// Kept: its app is unhealthy, and it keeps its shards, because most apps are.
	Kept bool
	// Held is for how long its app must be healthy before it gets shards again, because that
	// became unhealthy again and again; zero: it is not held back.
	Held time.Duration
	// Absent: it restarts in place, and is waited for.
	Absent bool
	// Staged: another node is to own shards of it, and those that are busy stay for now.
	Staged bool
	// Over: no process that had this name until now admits or runs anything any
	// more, so that another disk may take the name.
	Over bool
}

// View returns what the leader knows of every node, ordered by id. Who is not in it
// has not been heard in this term and owns nothing.
func (l *Leader) View(now time.Duration) []MemberView {
	for _, m := range slices.Concat(l.state.Committed().Members(), l.state.Last().Members()) {
		l.node(m.ID)
	}
	v := make([]MemberView, 0, len(l.nodes))
	for _, id := range slices.Sorted(maps.Keys(l.nodes)) {
		n := l.nodes[id]
		ago := time.Duration(-1)
		if n.heard() {
			ago = now - n.lastHeard
		}
		v = append(v, MemberView{
			Node: id, Heartbeat: n.beat, From: n.from, HeardAgo: ago,
			Silent: n.silent(now, l.o.Pace), Echoes: n.echoes(now, l.o.Pace), Crashed: n.crashed(), Eligible: l.eligible(now, n) && !l.absent(n), Absent: l.absent(n) || l.awaits(now, n), Staged: l.memo.staged[id], Over: l.over(now, n),
			Kept: l.apps.panics && n.beat.Unhealthy && l.state.Last().Has(id), Held: l.holdOf(now, n),
		})
	}
	return v
}
