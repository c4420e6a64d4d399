package ack

import (
	"slices"
	"time"
)

// barrierPause is the time between two tries of a barrier. Raft takes none while its
// first write of the term is under way, which a slow disk may take long for.
const barrierPause = 50 * time.Millisecond

// Raft is what a Turn reads of the leader's own Raft server, anew each time.
type Raft interface {
	// Term returns its present term.
	Term() uint64
	// Voters returns the servers that vote by the latest configuration in its log,
	// sorted.
	Voters() []string
}

// TurnOptions are what a leadership stands on.
type TurnOptions struct {
	// Leader is without its State.
	Leader LeaderOptions
	Raft   Raft
	// Clock reads the time, Newest the state that the own log has come to.
	Clock  func() time.Duration
	Newest func() *State
	// Keys returns the key configuration that the own node has loaded; nil: it has none.
	Keys func() string
}

// Turn is the loop of a Leader without its waiting: Take is one turn. It puts before
// each message what the machine must have been told first.
type Turn struct {
	o      TurnOptions
	leader *Leader
	began  time.Duration
	told   *State
	voters []string
	keys   string
	tries  int           // of the barrier
	again  time.Duration // when the next is due; negative: one is under way, or applied
	out    []Effect
}

// NewTurn begins the leadership of a server that Raft has elected. The first Take is
// due at once.
func NewTurn(o TurnOptions) *Turn {
	t := &Turn{o: o, began: o.Clock(), told: o.Newest()}
	t.again = t.began
	o.Leader.State = t.told
	t.leader = NewLeader(o.Leader, t.began)
	return t
}

// Began is when the leadership began, by the clock.
func (t *Turn) Began() time.Duration { return t.began }

// Told is the state that the machine knows.
func (t *Turn) Told() *State { return t.told }

// Take takes a message and returns what it calls for, in order. The slice is valid
// until the next Take. A Tick is due as Due says, and when the log has a newer state.
func (t *Turn) Take(m Message) []Effect {
	t.out = t.out[:0]
	t.look()
	switch b := m.(type) {
	case BarrierFailed:
		t.again, m = t.o.Clock()+barrierPause, Tick{}
	case BarrierApplied:
		// The start of the first try is a sound first Q: this node led the term before
		// it, and the barrier that a quorum took was put into the log after it, so
		// whoever is elected next is so by the vote of one that voted after it.
		b.Started = t.began
		m = b
	}
	t.step(m)
	if t.again >= 0 && t.o.Clock() >= t.again {
		t.again = -1
		t.tries++
		t.out = append(t.out, Barrier{Try: t.tries})
	}
	return t.out
}

// look tells the machine of a newer state before anything that was learnt after it.
func (t *Turn) look() {
	if s := t.o.Newest(); s != t.told {
		t.told = s
		t.step(Applied{State: s})
	}
}

// step tells the machine the present term and voters first: what it grants in the
// step is bounded by both (why 5).
func (t *Turn) step(m Message) {
	before := t.o.Clock()
	t.tell(before, TermRead{Before: before, Term: t.o.Raft.Term()})
	if v := t.o.Raft.Voters(); !slices.Equal(v, t.voters) {
		t.voters = v
		t.tell(t.o.Clock(), Voters{Servers: v})
	}
	if t.o.Keys != nil {
		if k := t.o.Keys(); k != t.keys {
			t.keys = k
			t.tell(t.o.Clock(), KeysLoaded{Text: k})
		}
	}
	t.tell(t.o.Clock(), m)
}

func (t *Turn) tell(now time.Duration, m Message) {
	t.out = append(t.out, t.leader.Step(now, m)...)
}

// Retime returns the entry that changes the cluster's timing; see Leader.Retime. What
// its look at the log calls for comes with the next Take.
func (t *Turn) Retime(want Timing) (entry []byte, effects []Effect, err error) {
	effects = t.Take(Tick{})
	entry, err = t.leader.Retime(t.o.Clock(), want)
	return entry, effects, err
}

// Amend puts changes of the policy in line; see Leader.Amend. The effects, as of Take,
// may have the Submit already.
func (t *Turn) Amend(changes []Change) (number uint64, effects []Effect, err error) {
	t.out = t.out[:0]
	t.look()
	number, err = t.leader.Amend(changes)
	t.step(Tick{})
	return number, t.out, err
}

// Plan returns what the next map would move; see Leader.Plan.
func (t *Turn) Plan() (Plan, error) { return t.leader.Plan(t.o.Clock()) }

// View returns what the leader knows of every node, ordered by id.
func (t *Turn) View() []MemberView { return t.leader.View(t.o.Clock()) }
