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
	o    Options
	raft *consensus.Raft
	Log  zerolog.Logger
	term uint64
	// began is the time of the clock at which the leadership started. A redial that started earlier is
	// no evidence of a crash.
	began time.Duration

	// The leader loop receives from the following channels. They are unbuffered unless noted otherwise.
	beats          chan heartbeat.Received       // heartbeats of other nodes
	own            chan heartbeat.Received       // cap 1: this node's own newest heartbeat
	messages       chan leader.Message           // other inputs of the machine
	views          chan chan []leader.MemberView // requests for the view of all nodes
	plans          chan chan planReply           // requests for the plan of the next map
	timingRequests chan timingRequest            // requests to change the timing
	policyRequests chan policyRequest            // requests to change the policy

	changingPolicy chan struct{} // cap 1: a lock for changes of the policy
	done           chan struct{} // closed when the leader loop has ended
	// ready means that the state contains all entries that earlier leaders committed.
	ready      atomic.Bool
	reconciler *membership.Reconciler
	settings   settingsBook
}

// newLeadership creates the leadership in a term. began is the time of the clock at its start.
func newLeadership(o Options, term uint64, began time.Duration) *Leadership {
	l := &Leadership{
		o: o, raft: o.View.Raft, term: term, began: began,
		Log:            o.Log.With().Uint64("term", term).Logger(),
		beats:          make(chan heartbeat.Received),
		own:            make(chan heartbeat.Received, 1),
		messages:       make(chan leader.Message),
		views:          make(chan chan []leader.MemberView),
		plans:          make(chan chan planReply),
		timingRequests: make(chan timingRequest),
		policyRequests: make(chan policyRequest),
		changingPolicy: make(chan struct{}, 1),
		done:           make(chan struct{}),
	}
	r := o.Reconciler
	r.Heard, r.Ready, r.Term, r.Log = l.View, l.ready.Load, term, l.Log
	l.reconciler = membership.NewReconciler(r)
	return l
}

// NewWithoutLoop creates a leadership whose messages the caller receives, for tests. end ends it.
func NewWithoutLoop(o Options, term uint64, began time.Duration) (l *Leadership, messages <-chan leader.Message, end func()) {
	l = newLeadership(o, term, began)
	return l, l.messages, func() { close(l.done) }
}

// Began returns the time of the clock at which the leadership started.
func (l *Leadership) Began() time.Duration { return l.began }

// Term returns the Raft term.
func (l *Leadership) Term() uint64 { return l.term }

// Deliver passes a heartbeat of another node to the leader loop. It waits until the loop has received it, the
// leadership has ended or ctx has ended.
func (l *Leadership) Deliver(ctx context.Context, in heartbeat.Received) {
	select {
	case l.beats <- in:
	case <-l.done:
	case <-ctx.Done():
	}
}

// DeliverOwn passes this node's own heartbeat to the leader loop. It does not block: if the loop is busy, a
// newer heartbeat replaces this one, as if it was lost.
func (l *Leadership) DeliverOwn(in heartbeat.Received) { chanutil.Replace(l.own, in) }

// Unconfirmed returns the nodes that the leader does not add to the cluster because it has not reached their
// peer ports.
func (l *Leadership) Unconfirmed() []membership.Unconfirmed { return l.reconciler.Unconfirmed() }

// View returns the leader's view of all nodes. The second result is false if the leadership or ctx has
// ended.
func (l *Leadership) View(ctx context.Context) ([]leader.MemberView, bool) {
	v := make(chan []leader.MemberView, 1)
	select {
	case l.views <- v:
		return <-v, true
	case <-l.done:
	case <-ctx.Done():
	}
	return nil, false
}

// transferViewTimeout bounds the wait for the view before a leadership transfer: the leader loop may be busy
// or have ended.
const transferViewTimeout = 100 * time.Millisecond

// Transfer transfers the leadership to another voter. It prefers a node that has applied the committed
// and the proposed map. A node that has the log on its disk, but does not apply it, could be elected
// too, and would grant no leases until it steps down. A node that has sent a goodbye ends soon. l is the
// leadership of this node; nil means that there is none.
func Transfer(ctx context.Context, v *cluster.View, l *Leadership) error {
	var views []leader.MemberView
	if l != nil {
		asking, cancel := context.WithTimeout(ctx, transferViewTimeout)
		defer cancel()
		views, _ = l.View(asking)
	}
	s := v.State()
	return v.Raft.Transfer(func(server string) bool {
		m, _ := ViewOf(views, consensus.NodeOf(server))
		return !m.Silent && !m.Heartbeat.Goodbye && m.Heartbeat.Applied >= s.Committed().Epoch() && m.Heartbeat.Acked >= s.Proposed().Epoch()
	})
}

// ViewOf returns the view of one node.
func ViewOf(views []leader.MemberView, node string) (leader.MemberView, bool) {
	i := slices.IndexFunc(views, func(v leader.MemberView) bool { return v.Node == shardmap.NodeID(node) })
	if i < 0 {
		return leader.MemberView{SinceHeartbeat: -1, Silent: true}, false
	}
	return views[i], true
}
