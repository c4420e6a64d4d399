package leaderloop

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"shardway/ack/leader"
	"shardway/internal/chanutil"
	"shardway/node/cluster"
	"shardway/node/consensus"
	"shardway/node/heartbeat"
	"shardway/node/membership"
	"shardway/shardmap"
)

// Leadership represents one Raft term in which this node leads, for goroutines other than the leader loop.
// They send requests to the leader loop (see Loop) over its channels, and change the replicated state
// only through Raft. Its methods may be called from any goroutine.
type Leadership struct {
	options Options
	raft    *consensus.Raft
	Log     zerolog.Logger
	term    uint64
	// startedAt is the time of Options.Clock at which the leadership started. A redial that started
	// earlier is no evidence of a crash.
	startedAt time.Duration

	// The leader loop receives from the following channels. They are unbuffered unless noted otherwise.
	heartbeats     chan heartbeat.Received       // heartbeats of other nodes
	ownHeartbeat   chan heartbeat.Received       // cap 1: this node's own newest heartbeat
	messages       chan leader.Message           // other inputs of the machine
	viewRequests   chan chan []leader.MemberView // requests for the view of all nodes
	leaseRequests  chan chan time.Duration       // requests for the remaining lease of this leader
	planRequests   chan chan planResult          // requests for the plan of the next map
	timingRequests chan timingRequest            // requests to change the timing
	policyRequests chan policyRequest            // requests to change the policy

	policyLock chan struct{} // cap 1: a lock for changes of the policy
	loopEnded  chan struct{} // closed when the leader loop has ended
	// ready is set if the state contains all entries that earlier leaders committed.
	ready            atomic.Bool
	reconciler       *membership.Reconciler
	registryLimit    *registryLimit
	reportedSettings settingsTable
}

// newLeadership creates the leadership of a term, which started at clock time startedAt.
func newLeadership(options Options, term uint64, startedAt time.Duration) *Leadership {
	l := &Leadership{
		options: options, raft: options.View.Raft, term: term, startedAt: startedAt,
		Log:            options.Log.With().Uint64("term", term).Logger(),
		heartbeats:     make(chan heartbeat.Received),
		ownHeartbeat:   make(chan heartbeat.Received, 1),
		messages:       make(chan leader.Message),
		viewRequests:   make(chan chan []leader.MemberView),
		leaseRequests:  make(chan chan time.Duration),
		planRequests:   make(chan chan planResult),
		timingRequests: make(chan timingRequest),
		policyRequests: make(chan policyRequest),
		policyLock:     make(chan struct{}, 1),
		loopEnded:      make(chan struct{}),
		registryLimit:  newRegistryLimit(),
	}
	reconciler := options.Reconciler
	reconciler.MemberViews, reconciler.Ready, reconciler.Term, reconciler.Log = l.View, l.ready.Load, term, l.Log
	l.reconciler = membership.NewReconciler(reconciler)
	return l
}

// NewWithoutLoop creates a leadership whose messages the caller receives, for tests. end ends the
// leadership.
func NewWithoutLoop(options Options, term uint64, startedAt time.Duration) (leadership *Leadership, messages <-chan leader.Message, end func()) {
	leadership = newLeadership(options, term, startedAt)
	return leadership, leadership.messages, func() { close(leadership.loopEnded) }
}

// StartedAt returns the clock time at which the leadership started.
func (l *Leadership) StartedAt() time.Duration { return l.startedAt }

// Term returns the Raft term.
func (l *Leadership) Term() uint64 { return l.term }

// Deliver passes a heartbeat of another node to the leader loop. It waits until the loop has received it, the
// leadership has ended or ctx has ended.
func (l *Leadership) Deliver(ctx context.Context, received heartbeat.Received) {
	select {
	case l.heartbeats <- received:
	case <-l.loopEnded:
	case <-ctx.Done():
	}
}

// DeliverOwn passes this node's own heartbeat to the leader loop. It does not block: if the loop is busy, a
// newer heartbeat replaces this one, as if it had been lost.
func (l *Leadership) DeliverOwn(received heartbeat.Received) {
	chanutil.Replace(l.ownHeartbeat, received)
}

// Unconfirmed returns the nodes that the leader does not add to the cluster because it has not reached their
// peer ports.
func (l *Leadership) Unconfirmed() []membership.Unconfirmed { return l.reconciler.Unconfirmed() }

// View returns the leader's view of all nodes. The second result is false if the leadership or ctx has
// ended.
func (l *Leadership) View(ctx context.Context) ([]leader.MemberView, bool) {
	response := make(chan []leader.MemberView, 1)
	select {
	case l.viewRequests <- response:
		return <-response, true
	case <-l.loopEnded:
	case <-ctx.Done():
	}
	return nil, false
}

// State is the state of a leadership, as the leader reports it to other nodes.
type State struct {
	// Duration is how long the leader has led in this term. LeaseLeft is how long it may still grant leases unless a
	// quorum confirms it again.
	Duration  time.Duration `json:"duration_ns"`
	LeaseLeft time.Duration `json:"lease_left_ns"`
}

// State returns the state of the leadership. The second result is false if the leadership or ctx has ended.
func (l *Leadership) State(ctx context.Context) (State, bool) {
	response := make(chan time.Duration, 1)
	select {
	case l.leaseRequests <- response:
		return State{Duration: l.options.Clock.Precise() - l.startedAt, LeaseLeft: <-response}, true
	case <-l.loopEnded:
	case <-ctx.Done():
	}
	return State{}, false
}

// transferViewTimeout bounds the wait for the view before a leadership transfer: the leader loop may be busy
// or have ended.
const transferViewTimeout = 100 * time.Millisecond

// Transfer transfers the leadership to another voter. It prefers a node that has applied the committed
// and the proposed map. A node that has the log on its disk, but does not apply it, could be elected
// too, and would grant no leases until it steps down. A node that has sent a goodbye stops soon.
// leadership is the leadership of this node; nil means that this node does not lead.
func Transfer(ctx context.Context, view *cluster.View, leadership *Leadership) error {
	var views []leader.MemberView
	if leadership != nil {
		viewCtx, cancel := context.WithTimeout(ctx, transferViewTimeout)
		defer cancel()
		views, _ = leadership.View(viewCtx)
	}
	state := view.State()
	return view.Raft.Transfer(func(server string) bool {
		member, _ := FindMember(views, consensus.NodeOf(server))
		if member.Silent || member.Heartbeat.Goodbye {
			return false
		}
		hasBothMaps := member.Heartbeat.Applied >= state.Committed().Epoch() && member.Heartbeat.Acked >= state.Proposed().Epoch()
		return hasBothMaps
	})
}

// IsAlive reports whether the leader receives heartbeats from a node whose process has not crashed.
func IsAlive(member leader.MemberView) bool {
	return member.SinceHeartbeat != leader.NeverReceived && !member.Silent && !member.Crashed
}

// FindMember returns the entry of a node in views. The second result is false if there is none; the
// entry then describes a node without heartbeats.
func FindMember(views []leader.MemberView, node string) (leader.MemberView, bool) {
	i := slices.IndexFunc(views, func(v leader.MemberView) bool { return v.Node == shardmap.NodeID(node) })
	if i < 0 {
		return leader.MemberView{SinceHeartbeat: leader.NeverReceived, Silent: true}, false
	}
	return views[i], true
}
