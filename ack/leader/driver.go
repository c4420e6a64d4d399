package leader

import (
	"slices"
	"time"

	"shardway/ack"
	"shardway/shardmap"
)

// barrierRetryPause is the time between two barriers. Raft refuses a barrier while the first
// write of its term is in progress, which may be long on a slow disk.
const barrierRetryPause = 50 * time.Millisecond

// Raft is the interface to the Raft server of the own node. Each method returns the present
// value.
type Raft interface {
	// Term returns the present term.
	Term() uint64
	// Voters returns the voting servers of the latest configuration in its log, sorted.
	Voters() []string
}

// DriverOptions are the options of a Driver.
type DriverOptions struct {
	// Leader is without State, which the driver sets.
	Leader Options
	Raft   Raft
	// Clock returns the time. Newest returns the newest state of the own log.
	Clock  func() time.Duration
	Newest func() *ack.State
	// Keys returns the key configuration that the own node has loaded; nil means none.
	Keys func() string
}

// Driver runs one iteration of the leader loop at a time. Before each message, it gives
// the Leader the inputs that must precede the message: the newest state, the term and the
// voters.
type Driver struct {
	o            DriverOptions
	leader       *Leader
	began        time.Duration
	state        *ack.State
	voters       []string
	keys         string
	barrierTries int           // of the barrier
	barrierDue   time.Duration // when the next barrier is due; negative means that one is in progress or applied
	effects      []Effect
}

// NewDriver begins the leadership of a server that Raft has elected. The first Handle is
// due immediately.
func NewDriver(o DriverOptions) *Driver {
	d := &Driver{o: o, began: o.Clock(), state: o.Newest()}
	d.barrierDue = d.began
	o.Leader.State = d.state
	d.leader = New(o.Leader, d.began)
	return d
}

// Began returns when the leadership began.
func (d *Driver) Began() time.Duration { return d.began }

// State returns the state that the leader works with.
func (d *Driver) State() *ack.State { return d.state }

// Handle handles a message and returns the effects in order. The slice is valid until the next
// Handle. A Tick is due as Due returns, and whenever the log has a newer state.
func (d *Driver) Handle(m Message) []Effect {
	d.effects = d.effects[:0]
	d.applyNewest()
	switch b := m.(type) {
	case BarrierFailed:
		d.barrierDue, m = d.o.Clock()+barrierRetryPause, Tick{}
	case BarrierApplied:
		// The start of the leadership is a safe first quorum time. This node led the term
		// then, and a quorum accepted the barrier later. So a vote for the next leader is
		// later, too.
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

// applyNewest gives the leader a newer state before anything that was learned after it.
func (d *Driver) applyNewest() {
	if s := d.o.Newest(); s != d.state {
		d.state = s
		d.step(StateApplied{State: s})
	}
}

// step gives the leader the present term and voters before m, because both limit what it
// grants in this step (why 5).
func (d *Driver) step(m Message) {
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

func (d *Driver) stepLeader(now time.Duration, m Message) {
	d.effects = append(d.effects, d.leader.Step(now, m)...)
}

// ChangeTiming returns the entry that changes the timing of the cluster; see
// Leader.ChangeTiming. The effects result from reading the log first.
func (d *Driver) ChangeTiming(want ack.Timing) (entry []byte, effects []Effect, err error) {
	effects = d.Handle(Tick{})
	entry, err = d.leader.ChangeTiming(d.o.Clock(), want)
	return entry, effects, err
}

// ChangePolicy queues policy changes; see Leader.ChangePolicy. The effects may contain the
// Submit.
func (d *Driver) ChangePolicy(changes []ack.Change) (number uint64, effects []Effect, err error) {
	d.effects = d.effects[:0]
	d.applyNewest()
	number, err = d.leader.ChangePolicy(changes)
	d.step(Tick{})
	return number, d.effects, err
}

// Plan returns the moves of the next map; see Leader.Plan.
func (d *Driver) Plan() (Plan, error) { return d.leader.Plan(d.o.Clock()) }

// View returns the state of every node as seen by the leader, ordered by id.
func (d *Driver) View() []MemberView { return d.leader.View(d.o.Clock()) }

// KeptShards returns the shards that stay with their owners because of safe drains, as of the last
// step.
func (d *Driver) KeptShards() map[shardmap.Shard]bool { return d.leader.keptShards }

// DefersMoves reports whether busy shards of the node remain there for now, as of the last step.
func (d *Driver) DefersMoves(node shardmap.NodeID) bool { return d.leader.lastAssignment.staged[node] }

// AwaitsIdleShards reports whether the node has not yet answered the pending AskIdle, which asks
// for its idle shards. first is true if this change has not yet moved any shard of the node.
func (d *Driver) AwaitsIdleShards(node shardmap.NodeID) (awaits, first bool) {
	o := d.leader.stages.owners[node]
	return d.leader.stages.awaitingAnswer[node], o != nil && o.proposals == 0
}
