package node

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"shardway/ack/leader"
	"shardway/node/consensus"
	"shardway/node/heartbeat"
	"shardway/node/membership"
	"shardway/shardmap"
)

// leadership represents one Raft term in which this node leads, for goroutines other than the leader loop.
// They send requests to the leader loop (see leading) over its channels, and change the replicated state
// only through Raft. Its methods may be called from any goroutine.
type leadership struct {
	n    *Node
	raft *consensus.Raft
	log  zerolog.Logger
	term uint64
	// began is the time of the clock at which the leadership started. A redial that started earlier is
	// no evidence of a crash.
	began time.Duration

	// The leader loop receives from the following channels. They are unbuffered unless noted otherwise.
	beats    chan heartbeat.Received       // heartbeats of other nodes
	own      chan heartbeat.Received       // cap 1: this node's own newest heartbeat
	messages chan leader.Message           // other inputs of the machine
	views    chan chan []leader.MemberView // requests for the view of all nodes
	plans    chan chan planned             // requests for the plan of the next map
	retimes  chan retiming                 // requests to change the timing
	askings  chan asking                   // requests to change the policy

	policing chan struct{} // cap 1: a lock for changes of the policy
	done     chan struct{} // closed when the leader loop has ended
	// ready means that the state contains all entries that earlier leaders committed.
	ready    atomic.Bool
	keeper   *membership.Reconciler
	settings settingsBook
}

// newLeadership creates the leadership of n in a term. began is the time of the clock at its start.
func newLeadership(n *Node, term uint64, began time.Duration) *leadership {
	l := &leadership{
		n: n, raft: n.raft, term: term, began: began,
		log:      n.log.With().Uint64("term", term).Logger(),
		beats:    make(chan heartbeat.Received),
		own:      make(chan heartbeat.Received, 1),
		messages: make(chan leader.Message),
		views:    make(chan chan []leader.MemberView),
		plans:    make(chan chan planned),
		retimes:  make(chan retiming),
		askings:  make(chan asking),
		policing: make(chan struct{}, 1),
		done:     make(chan struct{}),
	}
	l.keeper = n.newKeeper(l)
	return l
}

// view returns the leader's view of all nodes. The second result is false if the leadership or ctx has
// ended.
func (l *leadership) view(ctx context.Context) ([]leader.MemberView, bool) {
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

// transfer transfers the leadership to another voter. It prefers a node that has applied the committed
// and the proposed map. A node that has the log on its disk, but does not apply it, could be elected
// too, and would grant no leases until it steps down. A node that has sent a goodbye ends soon.
func (n *Node) transfer(ctx context.Context) error {
	var views []leader.MemberView
	if l := n.leading.Load(); l != nil {
		asking, cancel := context.WithTimeout(ctx, transferViewTimeout)
		defer cancel()
		views, _ = l.view(asking)
	}
	s := n.fsm.state.Load()
	return n.raft.Transfer(func(server string) bool {
		v, _ := viewOf(views, consensus.NodeOf(server))
		return !v.Silent && !v.Heartbeat.Goodbye && v.Heartbeat.Applied >= s.Committed().Epoch() && v.Heartbeat.Acked >= s.Last().Epoch()
	})
}

// viewOf returns the view of one node.
func viewOf(views []leader.MemberView, node string) (leader.MemberView, bool) {
	i := slices.IndexFunc(views, func(v leader.MemberView) bool { return v.Node == shardmap.NodeID(node) })
	if i < 0 {
		return leader.MemberView{SinceHeartbeat: -1, Silent: true}, false
	}
	return views[i], true
}
