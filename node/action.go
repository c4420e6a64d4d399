package node

import (
	"context"
	"fmt"
	"time"

	"shardway/admin/api"
	"shardway/diagnosis"
	"shardway/node/control"
	"shardway/node/leaderloop"
)

// Do performs an action of an operator. Only the leader can perform it, so another node sends the action
// to the leader.
func (n *Node) Do(ctx context.Context, a api.Action) error {
	ctx, cancel := context.WithTimeout(ctx, control.HandlerTimeout)
	defer cancel()
	if a.Hash != "" {
		a.Under = markedUnder(n.hashKey())
	}
	if l := n.leadership(); l != nil {
		return l.Do(ctx, a)
	}
	leader := n.view.Leader()
	if leader == "" {
		return fmt.Errorf("%w: %s", api.ErrNoLeader, n.leaderless())
	}
	return n.client.CallLeader(ctx, leader, control.Request{Kind: control.Do, Action: a}, nil)
}

// leadership returns the current leadership of this node, or nil if this node does not lead. It is also nil
// if the node has isolated itself because its disk has stalled, see leader.
func (n *Node) leadership() *leaderloop.Leadership {
	if n.raft.CutOff() {
		return nil
	}
	return n.leading.Load()
}

// leaderless returns why there is no leader, as far as this node can determine, with a remedy.
func (n *Node) leaderless() string {
	if f, ok := n.finding(diagnosis.NoQuorum, diagnosis.DiskStalled, diagnosis.NoPeers, diagnosis.Bootstrapping); ok {
		return f.Text + "; " + f.Remedy
	}
	return "an election is under way, or this node is cut off; try again in a moment"
}

// leaveRaft asks the leader to remove the server of this node from Raft's configuration. It only logs an
// error, because the node can stop as a member, too.
func (n *Node) leaveRaft(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	leader := n.raft.Leader()
	if leader == "" || leader == string(n.self) {
		return
	}
	if err := n.client.Call(ctx, leader, control.Request{Kind: control.Leave, Server: n.server}, nil); err != nil {
		n.log.Debug().Err(err).Msg("server not removed from Raft configuration")
	}
}
