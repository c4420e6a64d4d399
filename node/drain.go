package node

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"shardway/ack"
	"shardway/ack/leader"
	"shardway/admin/api"
	"shardway/node/control"
	"shardway/node/leaderloop"
	"shardway/shardmap"
)

// DrainSelf makes this process give up all its shards for the rest of its life. It is the first step of a
// stop: the node continues to forward requests and to vote, but is no longer ready. The drain is not
// recorded in the log, so the next process of the node owns shards again.
func (n *Node) DrainSelf() api.DrainState {
	why := n.endangers()
	if !n.agent.leaving.Swap(true) {
		n.log.Info().Str("endangers", why).Msg("draining, requested on this machine")
	}
	notify(n.agent.wake)
	d := n.SelfState()
	d.Warning = why
	return d
}

// endangers returns why the cluster would lose its quorum or its last owner if this node stopped. Empty
// means that the node can stop safely.
func (n *Node) endangers() string {
	voters, _ := n.view.Servers()
	views := n.leaderViews()
	if len(views) == 0 {
		return "no leader answers, and nothing moves without one: " + n.leaderless()
	}
	why, _ := leaderloop.Endangered(n.self, voters, views, n.fsm.state.Load().Policy())
	return why
}

// SelfState returns the progress of the drain of this process that DrainSelf has started.
func (n *Node) SelfState() api.DrainState {
	d := n.leftAt(n.router.State(), n.self)
	d.Requested = n.agent.leaving.Load()
	d.Requests, d.Sockets = n.running()
	d.Held = n.heldShards()
	d.Unreleased, d.UnreleasedWhy = n.agent.releases.inDrain()
	if d.Shards > 0 {
		d.BlockedBy = cmp.Or(n.mapStays(), n.agent.keptStays(d.Shards))
	}
	return d
}

// DrainState returns the progress of the drain of a node. It asks that node and combines the response
// with the log of this node, within runningTimeout. If that node does not respond, it also asks the leader,
// within viewTimeout, whether the node still sends heartbeats.
func (n *Node) DrainState(ctx context.Context, node string) (api.DrainState, error) {
	s := n.fsm.state.Load()
	id := shardmap.NodeID(node)
	if !s.Policy().Leaves(id) && !n.view.HasNode(node) {
		return api.DrainState{}, n.view.UnknownNode(node)
	}
	askCtx, cancel := context.WithTimeout(ctx, runningTimeout)
	defer cancel()
	d, err := n.drainAt(askCtx, node)
	var views []leader.MemberView
	if err != nil {
		views = n.leaderViewsBy(ctx)
		d.Unconfirmed = mayRun(views, node)
	}
	known := n.leftAt(s, id)
	d.Node, d.Shards, d.Requested = known.Node, max(d.Shards, known.Shards), d.Requested || s.Policy().Leaves(id)
	if !d.Requested {
		d.BlockedBy = "" // without a drain, the shards need not move
	}
	if !d.Requested || !d.Left() || d.BlockedBy != "" {
		return d, nil // WaitsFor is only for a drain that makes progress
	}
	if err == nil {
		views = n.leaderViewsBy(askCtx)
	} else {
		d.BlockedBy = n.unansweredStays(node, views)
	}
	d.WaitsFor = waitsFor(s, id, d, views)
	return d, nil
}

// drainAt asks a node for the progress of its drain. If the request fails, the counts that only that node
// can determine are -1.
func (n *Node) drainAt(ctx context.Context, node string) (api.DrainState, error) {
	if node == string(n.self) {
		return n.drainHere(), nil
	}
	var d api.DrainState
	err := n.client.Call(ctx, node, control.Request{Kind: control.Drain}, &d)
	if err != nil {
		n.log.Debug().Err(err).Str("peer", node).Msg("node did not report drain state")
		d = api.DrainState{Requests: -1, Sockets: -1, Held: -1}
	}
	return d, err
}

// mayRun reports whether a node that does not respond may still run requests. views is the leader's view
// of the nodes; nil means unknown. A node that sends heartbeats is alive, and can be too slow to respond.
func mayRun(views []leader.MemberView, node string) bool {
	v, ok := leaderloop.ViewOf(views, node)
	return views == nil || ok && v.SinceHeartbeat >= 0 && !v.Silent && !v.Crashed
}

// drainHere returns the progress of a drain of this node. In contrast to SelfState, it includes a drain
// that an operator has requested from the cluster, which the log contains.
func (n *Node) drainHere() api.DrainState {
	d := n.SelfState()
	d.Requested = d.Requested || n.fsm.state.Load().Policy().Leaves(n.self)
	return d
}

// unansweredStays returns why the shards of a node that does not respond stay there. Empty means that other
// nodes take them over. A takeover needs a leader and another node that may own shards.
func (n *Node) unansweredStays(node string, views []leader.MemberView) string {
	switch {
	case n.view.Leader() == "":
		return "no leader: " + n.leaderless()
	case views != nil && !slices.ContainsFunc(views, func(v leader.MemberView) bool { return v.Eligible && string(v.Node) != node }):
		return nobodyElse
	}
	return ""
}

// waitsFor describes what must happen before a drained node owns no shards and runs no requests. views is
// the leader's view of the nodes; nil means unknown.
func waitsFor(s *ack.State, id shardmap.NodeID, d api.DrainState, views []leader.MemberView) string {
	v, _ := leaderloop.ViewOf(views, string(id))
	switch emptying, gentle := s.Policy().GradualDrains[id]; {
	case v.Restarting:
		return "the node restarts in place"
	case d.Shards == 0 && d.Unconfirmed:
		return "the node is alive but does not report its requests"
	case d.Shards == 0:
		return "requests and sockets still run at its app"
	case s.Open() && s.Last().Count(id) < s.Committed().Count(id):
		return fmt.Sprintf("epoch %d is not acknowledged by %s", s.Last().Epoch(), unacknowledged(s, views))
	case gentle:
		return fmt.Sprintf("busy shards move at the latest %s after the drain began", emptying.For)
	case v.Staged:
		return fmt.Sprintf("%d busy shards move when their requests have ended, at the latest drain-timeout after the drain began", d.Shards)
	}
	return "the leader has not proposed a shard map without the node yet"
}

// unacknowledged lists the members that have not acknowledged the open proposal, as the end of a sentence.
func unacknowledged(s *ack.State, views []leader.MemberView) string {
	var names []string
	for _, v := range views {
		member := s.Last().Has(v.Node) || s.Committed().Has(v.Node)
		if member && !v.Restarting && v.Heartbeat.Acked < s.Last().Epoch() {
			names = append(names, string(v.Node))
		}
	}
	if len(names) == 0 {
		return "all nodes yet"
	}
	return "node " + strings.Join(names, ", ")
}

// leftAt returns a DrainState that contains the number of shards that the node owns in the committed or
// the proposed map, whichever is greater.
func (n *Node) leftAt(s *ack.State, id shardmap.NodeID) api.DrainState {
	return api.DrainState{Node: string(id), Shards: max(s.Committed().Count(id), s.Last().Count(id))}
}

// nobodyElse is the reason why shards stay although the cluster has a leader.
const nobodyElse = "no other node can own them"

// mapStays returns why no other node takes over the shards of this node, which drains or stops. Empty means
// that another node may take them over.
func (n *Node) mapStays() string {
	silence := n.o.Clock.Precise() - time.Duration(n.agent.lastAnswer.Load())
	switch {
	case n.view.IsLastNode():
		return "no other node is there"
	case n.agent.keepsShards.Load():
		return nobodyElse
	case silence > 2*n.view.Timing().DeadAfter:
		return "no leader is heard"
	}
	return ""
}
