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
	Timing Timing
	Fence  Fence
	// State is the leader's state at its election, which may lack entries that
	// earlier leaders committed: BarrierApplied tells when it does not any more.
	State *State
}

// Leader decides, for one term, which map to propose, when it may be committed,
// and who may serve until when.
type Leader struct {
	o       LeaderOptions
	t       Timing
	elected time.Duration
	barrier bool
	state   *State
	grants  Grantor
	nodes   map[shardmap.NodeID]*member
	answers uint64

	submitting bool           // an entry is on its way into the log
	committing shardmap.Epoch // a commit of this map was submitted and is not applied
	began      time.Duration  // when the open round of this term was applied
	committed  time.Duration  // when the present map was seen committed
	settled    bool           // a round of this term was committed
	wantSince  time.Duration  // when a reason for a new map was first seen; negative: none
	failing    map[shardmap.NodeID]Cause
	droppedAt  map[shardmap.NodeID]time.Duration
	memo       assignment
	// eligibleNow is the scratch of members.
	eligibleNow []shardmap.Member
	down        bool
	out         []Effect
}

// NewLeader returns the machine of a leader elected at now. The caller issues a
// barrier at once and tells when it was applied.
func NewLeader(o LeaderOptions, now time.Duration) *Leader {
	l := &Leader{
		o: o, t: o.Timing, elected: now, state: o.State, wantSince: -1, committed: now,
		grants:    newGrantor(o.Timing, o.Server),
		nodes:     map[shardmap.NodeID]*member{},
		failing:   map[shardmap.NodeID]Cause{},
		droppedAt: map[shardmap.NodeID]time.Duration{},
	}
	return l
}

// Step takes one message and returns what it calls for. The slice is valid until
// the next Step.
func (l *Leader) Step(now time.Duration, msg Message) []Effect {
	l.out = l.out[:0]
	switch m := msg.(type) {
	case Tick:
	case TermRead:
		l.termRead(m)
	case Heard:
		l.heard(now, m)
	case Closed:
		if n := l.nodes[m.Node]; n != nil && n.beat.Nonce == m.Nonce {
			n.closed = true
		}
	case Applied:
		l.applied(now, m.State)
	case BarrierApplied:
		l.barrier = true
		l.grants.floor = m.Started
	case SubmitFailed:
		l.submitting, l.committing = false, 0
	case Voters:
		l.grants.voters = slices.Clone(m.Servers)
	case Evidence:
		l.evidence(now, m)
	case Remove:
		l.node(m.Node).removed = true
		if l.state.Last().Has(m.Node) {
			l.failing[m.Node] = CauseRemoved
		}
	}
	l.reconcile(now)
	return l.out
}

func (l *Leader) emit(e Effect) { l.out = append(l.out, e) }

func (l *Leader) stepDown(reason string) {
	if !l.down {
		l.down = true
		l.emit(StepDown{Reason: reason})
	}
}

// node returns what is known of id, a node never heard if nothing is.
func (l *Leader) node(id shardmap.NodeID) *member {
	n := l.nodes[id]
	if n == nil {
		n = &member{id: id, lastGrant: l.elected, lastFresh: l.elected, echoAt: -1, behindSince: -1}
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

// applied takes the newest state of the own log.
func (l *Leader) applied(now time.Duration, s *State) {
	old := l.state
	l.state = s
	if s.Last().Epoch() != old.Last().Epoch() {
		l.submitting = false
		l.began = now
		for _, id := range slices.Sorted(maps.Keys(s.drops)) {
			if d := s.drops[id]; d.InForce && d.Epoch == s.Last().Epoch() {
				l.droppedAt[id] = now
				delete(l.failing, id)
			}
		}
	}
	if s.Committed().Epoch() != old.Committed().Epoch() {
		l.committed = now
		l.settled = l.settled || s.LastTerm() == l.o.Term
	}
	if l.committing != 0 && (s.Committed().Epoch() >= l.committing || s.Last().Epoch() != l.committing) {
		l.committing, l.submitting = 0, false
	}
	if s.Ignored() != old.Ignored() {
		// An own entry came too late to count; look again.
		l.submitting, l.committing = false, 0
	}
}

// mine reports whether the open proposal, if any, is of this term.
func (l *Leader) mine() bool { return l.state.Open() && l.state.LastTerm() == l.o.Term }

// evidence notes that a boot is gone. What names an older boot says nothing.
func (l *Leader) evidence(now time.Duration, m Evidence) {
	n := l.node(m.Node)
	if n.heard() && m.Boot < n.beat.Boot || n.crashed() {
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
	Crashed  bool
	Eligible bool
}

// View returns what the leader knows of every node, ordered by id.
func (l *Leader) View(now time.Duration) []MemberView {
	v := make([]MemberView, 0, len(l.nodes))
	for _, id := range slices.Sorted(maps.Keys(l.nodes)) {
		n := l.nodes[id]
		ago := time.Duration(-1)
		if n.heard() {
			ago = now - n.lastHeard
		}
		v = append(v, MemberView{
			Node: id, Heartbeat: n.beat, From: n.from, HeardAgo: ago,
			Silent: n.silent(now, l.t), Crashed: n.crashed(), Eligible: l.eligible(now, n),
		})
	}
	return v
}
