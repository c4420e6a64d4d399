package ack

import (
	"slices"
	"time"
)

// barrierPause is the time between two tries of a barrier. Raft takes none while its
// first write of the term is under way, which a slow disk may take long for.
const barrierRetryPause = 50 * time.Millisecond

// Raft is what a Turn reads of the leader's own Raft server, anew each time.
type Raft interface {
	// Term returns its present term.
	Term() uint64
	// Voters returns the servers that vote by the latest configuration in its log,
	// sorted.
	Voters() []string
}

// LeaderDriverOptions are what a leadership stands on.
type LeaderDriverOptions struct {
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
type LeaderDriver struct {
	o            LeaderDriverOptions
	leader       *Leader
	began        time.Duration
	state        *State
	voters       []string
	keys         string
	barrierTries int           // of the barrier
	barrierDue   time.Duration // when the next is due; negative: one is under way, or applied
	effects      []Effect
}

// NewLeaderDriver begins the leadership of a server that Raft has elected. The first Take is
// due at once.
func NewLeaderDriver(o LeaderDriverOptions) *LeaderDriver {
	d := &LeaderDriver{o: o, began: o.Clock(), state: o.Newest()}
	d.barrierDue = d.began
	o.Leader.State = d.state
	d.leader = NewLeader(o.Leader, d.began)
	return d
}

// Began is when the leadership began, by the clock.
func (d *LeaderDriver) Began() time.Duration { return d.began }

// Told is the state that the machine knows.
func (d *LeaderDriver) State() *State { return d.state }

// Take takes a message and returns what it calls for, in order. The slice is valid
// until the next Take. A Tick is due as Due says, and when the log has a newer state.
func (d *LeaderDriver) Handle(m Message) []Effect {
	d.effects = d.effects[:0]
	d.applyNewest()
	switch b := m.(type) {
	case BarrierFailed:
		d.barrierDue, m = d.o.Clock()+barrierRetryPause, Tick{}
	case BarrierApplied:
		// The start of the first try is a sound first Q: this node led the term before
		// it, and the barrier that a quorum took was put into the log after it, so
		// whoever is elected next is so by the vote of one that voted after it.
		b.Started = d.began
		m = b
	}
	d.step(m)
	if d.barrierDue >= 0 && d.o.Clock() >= d.barrierDue {
		d.barrierDue = -1
		d.barrierTries++
		d.effects = append(d.effects, Barrier{Try: d.barrierTries})
	}
	return d.effects
}

// look tells the machine of a newer state before anything that was learnt after it.
func (d *LeaderDriver) applyNewest() {
	if s := d.o.Newest(); s != d.state {
		d.state = s
		d.step(StateApplied{State: s})
	}
}

// step tells the machine the present term and voters first: what it grants in the
// step is bounded by both (why 5).
func (d *LeaderDriver) step(m Message) {
	before := d.o.Clock()
	d.stepLeader(before, TermRead{Before: before, Term: d.o.Raft.Term()})
	if v := d.o.Raft.Voters(); !slices.Equal(v, d.voters) {
		d.voters = v
		d.stepLeader(d.o.Clock(), Voters{Servers: v})
	}
	if d.o.Keys != nil {
		if k := d.o.Keys(); k != d.keys {
			d.keys = k
			d.stepLeader(d.o.Clock(), KeysLoaded{Text: k})
		}
	}
	d.stepLeader(d.o.Clock(), m)
}

func (d *LeaderDriver) stepLeader(now time.Duration, m Message) {
	d.effects = append(d.effects, d.leader.Step(now, m)...)
}

// Retime returns the entry that changes the cluster's timing; see Leader.Retime. What
// its look at the log calls for comes with the next Take.
func (d *LeaderDriver) ChangeTiming(want Timing) (entry []byte, effects []Effect, err error) {
	effects = d.Handle(Tick{})
	entry, err = d.leader.ChangeTiming(d.o.Clock(), want)
	return entry, effects, err
}

// Amend puts changes of the policy in line; see Leader.Amend. The effects, as of Take,
// may have the Submit already.
func (d *LeaderDriver) ChangePolicy(changes []Change) (number uint64, effects []Effect, err error) {
	d.effects = d.effects[:0]
	d.applyNewest()
	number, err = d.leader.ChangePolicy(changes)
	d.step(Tick{})
	return number, d.effects, err
}

// Plan returns what the next map would move; see Leader.Plan.
func (d *LeaderDriver) Plan() (Plan, error) { return d.leader.Plan(d.o.Clock()) }

// View returns what the leader knows of every node, ordered by id.
func (d *LeaderDriver) View() []MemberView { return d.leader.View(d.o.Clock()) }
