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

// Raft is the interface to this node's Raft server. Each method returns the current
// value.
type Raft interface {
	// Term returns the current term.
	Term() uint64
	// Voters returns the voting servers of the latest configuration in its log, sorted.
	Voters() []string
	// Nonvoters returns the other servers of that configuration, sorted.
	Nonvoters() []string
}

// DriverOptions are the options of a Driver.
type DriverOptions struct {
	// Leader is without State, which the driver sets.
	Leader Options
	Raft   Raft
	// Clock returns the time since an arbitrary moment, and never goes back.
	Clock func() time.Duration
	// NewestState returns the newest state of this node's log.
	NewestState func() *ack.State
	// KeyConfig returns the key configuration that the leader's own node has loaded. Nil means none.
	KeyConfig func() string
	// ServicesOf returns the services that a key configuration names. Nil means that it names none.
	ServicesOf func(keyConfig string) []ack.ServiceSpec
}

// Driver runs one iteration of the leader loop at a time. Before each message, it gives
// the Leader the inputs that must precede the message: the newest state, the term and the
// servers.
type Driver struct {
	options   DriverOptions
	leader    *Leader
	startedAt time.Duration // when the leadership began

	// The last inputs of the leader.

	state     *ack.State
	servers   Servers
	keyConfig string

	barrierAttempts int
	// barrierDue is when the next barrier is due. Negative means that one is in progress or applied.
	barrierDue time.Duration
	effects    []Effect // of the current Step
}

// NewDriver begins the leadership of a server that Raft has elected. The first Step is
// due immediately.
func NewDriver(options DriverOptions) *Driver {
	d := &Driver{options: options, startedAt: options.Clock(), state: options.NewestState()}
	d.barrierDue = d.startedAt
	options.Leader.State = d.state
	d.leader = New(options.Leader, d.startedAt)
	return d
}

// StartedAt returns when the leadership began.
func (d *Driver) StartedAt() time.Duration { return d.startedAt }

// State returns the state that the leader works with.
func (d *Driver) State() *ack.State { return d.state }

// Step applies a message and returns the effects in order. The slice is valid until the next
// Step. The caller must call Step with a Tick at the time that Due returns, and whenever the log
// has a newer state.
func (d *Driver) Step(m Message) []Effect {
	d.effects = d.effects[:0]
	d.applyNewest()
	switch m.(type) {
	case BarrierFailed:
		d.barrierDue, m = d.options.Clock()+barrierRetryPause, Tick{}
	case BarrierApplied:
		// The start of the leadership is a safe first quorum time. This node led the term then, and
		// a quorum accepted the barrier later, so a vote for the next leader is also later.
		m = BarrierApplied{Started: d.startedAt}
	}
	d.stepWithInputs(m)
	if d.barrierDue >= 0 && d.options.Clock() >= d.barrierDue {
		d.barrierDue = -1
		d.barrierAttempts++
		d.effects = append(d.effects, Barrier{Attempt: d.barrierAttempts})
	}
	return d.effects
}

// applyNewest gives the leader a newer state before anything that was learned after it.
func (d *Driver) applyNewest() {
	if state := d.options.NewestState(); state != d.state {
		d.state = state
		d.stepWithInputs(StateApplied{State: state})
	}
}

// stepWithInputs gives the leader m, and before it the current term, servers and key configuration.
// The term and the servers limit the leases of this step: if another leader has been elected, this
// leader must not grant any (reason 5 of docs/internals/protocol-reasons.md).
func (d *Driver) stepWithInputs(m Message) {
	readAfter := d.options.Clock()
	d.stepLeader(readAfter, TermRead{After: readAfter, Term: d.options.Raft.Term()})
	servers := Servers{Voters: d.options.Raft.Voters(), Nonvoters: d.options.Raft.Nonvoters()}
	if !slices.Equal(servers.Voters, d.servers.Voters) || !slices.Equal(servers.Nonvoters, d.servers.Nonvoters) {
		d.servers = servers
		d.stepLeader(d.options.Clock(), servers)
	}
	if d.options.KeyConfig != nil {
		if keyConfig := d.options.KeyConfig(); keyConfig != d.keyConfig {
			d.keyConfig = keyConfig
			d.stepLeader(d.options.Clock(), KeyConfigLoaded{Text: keyConfig, Services: d.servicesOf(keyConfig)})
		}
	}
	d.stepLeader(d.options.Clock(), m)
}

// servicesOf returns the services that a key configuration names.
func (d *Driver) servicesOf(keyConfig string) []ack.ServiceSpec {
	if d.options.ServicesOf == nil {
		return nil
	}
	return d.options.ServicesOf(keyConfig)
}

func (d *Driver) stepLeader(now time.Duration, m Message) {
	d.effects = append(d.effects, d.leader.Step(now, m)...)
}

// ChangeTiming returns the entry that changes the timing of the cluster; see
// Leader.ChangeTiming. The effects result from reading the log first.
func (d *Driver) ChangeTiming(want ack.Timing) (entry []byte, effects []Effect, err error) {
	effects = d.Step(Tick{})
	entry, err = d.leader.ChangeTiming(d.options.Clock(), want)
	return entry, effects, err
}

// ChangePolicy queues policy changes; see Leader.ChangePolicy. The effects may contain the
// Submit.
func (d *Driver) ChangePolicy(changes []ack.Change) (number uint64, effects []Effect, err error) {
	d.effects = d.effects[:0]
	d.applyNewest()
	number, err = d.leader.ChangePolicy(changes)
	d.stepWithInputs(Tick{})
	return number, d.effects, err
}

// Plan returns the moves of the next map; see Leader.Plan.
func (d *Driver) Plan() (Plan, error) { return d.leader.Plan(d.options.Clock()) }

// View returns the state of every node as seen by the leader, ordered by id.
func (d *Driver) View() []MemberView { return d.leader.View(d.options.Clock()) }

// LeaseLeft returns how long this leader may still grant leases; see Leader.LeaseLeft.
func (d *Driver) LeaseLeft() time.Duration { return d.leader.LeaseLeft(d.options.Clock()) }

// KeptShards returns the shards that stay with their owners because of safe drains, as of the last
// step.
func (d *Driver) KeptShards() map[shardmap.Shard]bool { return d.leader.assigned.inputs.keptShards }

// Services returns the services for shardmap.Assign, as of the last step; nil if the cluster has no list
// of services.
func (d *Driver) Services() []shardmap.Service { return d.leader.assigned.inputs.services }

// DeferringInstances returns the instances that have not failed of a node whose busy shards remain there for
// now, as of the last step.
func (d *Driver) DeferringInstances(node shardmap.NodeID) (instances shardmap.InstanceSet, defers bool) {
	instances, defers = d.leader.assigned.deferringOwners[node]
	return instances, defers
}

// DefersMoves reports whether busy shards of the node remain there for now, as of the last step.
func (d *Driver) DefersMoves(node shardmap.NodeID) bool {
	_, defers := d.leader.assigned.deferringOwners[node]
	return defers
}

// AwaitsIdleShards reports whether the node has not yet answered the pending IdleShardsQuery, which asks
// for its idle shards. first is true if this change has not yet moved any shard of the node.
func (d *Driver) AwaitsIdleShards(node shardmap.NodeID) (awaits, first bool) {
	progress := d.leader.staged.progress[node]
	return d.leader.staged.awaitingAnswer[node], progress != nil && progress.proposals == 0
}
