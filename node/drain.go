package node

import (
	"context"
	"time"

	"shardway/ack"
	"shardway/admin"
	"shardway/shardmap"
)

var (
	_ admin.Self    = (*Node)(nil)
	_ admin.Drainer = (*Node)(nil)
)

// DrainSelf has this process own nothing for as long as it runs, as the first thing that it
// does to stop: it goes on forwarding and voting, and is not ready any more. The cluster
// keeps nothing of it, so the next process of the node owns shards again.
func (n *Node) DrainSelf() admin.DrainState {
	why := n.endangers()
	if !n.agent.leaving.Swap(true) {
		n.log.Info().Str("endangers", why).Msg("draining: asked for on this machine")
	}
	hint(n.agent.wake)
	d := n.SelfState()
	d.Warning = why
	return d
}

// endangers returns what the end of this node endangers; empty: nothing.
func (n *Node) endangers() string {
	voters, _ := n.servers()
	views := n.leaderViews()
	if len(views) == 0 {
		return "no leader answers, and nothing moves without one: " + n.leaderless()
	}
	why, _ := endangered(n.self, voters, views, n.fsm.state.Load().Policy())
	return why
}

// SelfState tells how far that is.
func (n *Node) SelfState() admin.DrainState {
	d := n.leftAt(n.router.state.Load(), n.self)
	d.Asked = n.agent.leaving.Load()
	d.Requests, d.Sockets = n.running()
	if d.Shards > 0 {
		d.Stays = n.mapStays()
	}
	return d
}

// DrainState tells how far the drain of a node is, as far as this one's log and the
// node itself tell.
func (n *Node) DrainState(ctx context.Context, node string) (admin.DrainState, error) {
	s := n.fsm.state.Load()
	id := shardmap.NodeID(node)
	if !s.Policy().Leaves(id) && !n.hasNode(node) {
		return admin.DrainState{}, unknownNode(node)
	}
	d := n.leftAt(s, id)
	d.Asked = s.Policy().Leaves(id)
	if id == n.self {
		d.Asked = d.Asked || n.agent.leaving.Load() // this process alone was asked
		d.Requests, d.Sockets = n.running()
		return d, nil
	}
	ctx, cancel := context.WithTimeout(ctx, runningTimeout)
	defer cancel()
	at := untold()
	if err := n.ask(ctx, node, request{What: askRunning}, &at); err != nil {
		n.log.Debug().Err(err).Str("peer", node).Msg("what runs there is not told")
		at = untold()
	}
	d.Asked = d.Asked || at.Leaving
	d.Requests, d.Sockets = at.Requests, at.Sockets
	return d, nil
}

// leftAt counts what a node owns or is to own.
func (n *Node) leftAt(s *ack.State, id shardmap.NodeID) admin.DrainState {
	return admin.DrainState{Node: string(id), Shards: max(s.Committed().Count(id), s.Last().Count(id))}
}

// mapStays says why nobody takes this node's shards, though it is to own nothing; empty:
// somebody may.
func (n *Node) mapStays() string {
	silence := n.o.Clock.Precise() - time.Duration(n.agent.answered.Load())
	switch {
	case n.last():
		return "no other node is there"
	case n.agent.stays.Load():
		return "no other node can own them"
	case silence > 2*n.timing().DeadAfter:
		return "no leader is heard"
	}
	return ""
}
