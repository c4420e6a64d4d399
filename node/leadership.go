package node

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"shardway/ack"
	"shardway/node/consensus"
	"shardway/node/roster"
	"shardway/shardmap"
)

// leadership is one Raft term that this node leads, as others may use it: they ask
// its goroutine, leading, over channels, and what they do at the leader they do
// through Raft. Its methods may be called from any goroutine.
type leadership struct {
	n    *Node
	raft *consensus.Raft
	log  zerolog.Logger
	term uint64
	// began is when, by the node's clock: a redial that began before shows nothing.
	began time.Duration

	beats    chan receivedHeartbeat     // unbuffered
	own      chan receivedHeartbeat     // cap 1: this node's own newest heartbeat
	messages chan ack.Message           // unbuffered
	views    chan chan []ack.MemberView // unbuffered
	plans    chan chan planned          // unbuffered
	retimes  chan retiming              // unbuffered
	askings  chan asking                // unbuffered
	policing chan struct{}              // cap 1: held by whoever changes the policy
	done     chan struct{}              // closed when the goroutine has ended
	// ready tells that the state is no older than what earlier leaders committed.
	ready    atomic.Bool
	keeper   *roster.Reconciler
	settings settingsBook
}

func newLeadership(n *Node, term uint64, began time.Duration) *leadership {
	l := &leadership{
		n: n, raft: n.raft, term: term, began: began,
		log:      n.log.With().Uint64("term", term).Logger(),
		beats:    make(chan receivedHeartbeat),
		own:      make(chan receivedHeartbeat, 1),
		messages: make(chan ack.Message),
		views:    make(chan chan []ack.MemberView),
		plans:    make(chan chan planned),
		retimes:  make(chan retiming),
		askings:  make(chan asking),
		policing: make(chan struct{}, 1),
		done:     make(chan struct{}),
	}
	l.keeper = n.newKeeper(l)
	return l
}

// view returns what the leader knows of the nodes, and false once it does not
// lead any more.
func (l *leadership) view(ctx context.Context) ([]ack.MemberView, bool) {
	v := make(chan []ack.MemberView, 1)
	select {
	case l.views <- v:
		return <-v, true
	case <-l.done:
	case <-ctx.Done():
	}
	return nil, false
}

// viewWithin bounds the wait for what the leader knows, before leadership is given away: its
// goroutine may be busy, or over.
const viewWithin = 100 * time.Millisecond

// transfer gives leadership away, to a node that keeps up with what is committed and proposed
// if there is one: who has the log on its disk and does not apply it is elected too, and grants
// nothing then until it steps down; and who has said goodbye stays for a moment.
func (n *Node) transfer(ctx context.Context) error {
	var views []ack.MemberView
	if l := n.leading.Load(); l != nil {
		asking, cancel := context.WithTimeout(ctx, viewWithin)
		defer cancel()
		views, _ = l.view(asking)
	}
	s := n.fsm.state.Load()
	return n.raft.Transfer(func(server string) bool {
		v, _ := viewOf(views, nodeOf(server))
		return !v.Silent && !v.Heartbeat.Goodbye && v.Heartbeat.Applied >= s.Committed().Epoch() && v.Heartbeat.Acked >= s.Last().Epoch()
	})
}

// viewOf returns the view of one node.
func viewOf(views []ack.MemberView, node string) (ack.MemberView, bool) {
	i := slices.IndexFunc(views, func(v ack.MemberView) bool { return v.Node == shardmap.NodeID(node) })
	if i < 0 {
		return ack.MemberView{SinceHeartbeat: -1, Silent: true}, false
	}
	return views[i], true
}
