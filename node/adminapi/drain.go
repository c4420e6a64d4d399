package adminapi

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

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
func (a *API) DrainSelf() api.DrainState {
	why := a.stopRisk()
	if a.o.Agent.Leave() {
		a.o.Log.Info().Str("endangers", why).Msg("draining, requested on this machine")
	}
	d := a.SelfState()
	d.Warning = why
	return d
}

// stopRisk returns why the cluster would lose its quorum or its last owner if this node stopped. Empty
// means that the node can stop safely.
func (a *API) stopRisk() string {
	voters, _ := a.o.View.Servers()
	views := a.o.Leader.Views(context.Background())
	if len(views) == 0 {
		return "no leader responds, and no shard moves without a leader: " + a.WhyNoLeader()
	}
	why, _ := leaderloop.Endangered(a.o.Self, voters, views, a.o.View.State().Policy())
	return why
}

// SelfState returns the progress of the drain of this process that DrainSelf has started.
func (a *API) SelfState() api.DrainState {
	d := a.leftAt(a.o.Router.State(), a.o.Self)
	d.Requested = a.o.Agent.IsLeaving()
	d.Requests, d.Sockets = a.Counts()
	d.Held = a.o.HeldShards()
	d.Unreleased, d.UnreleasedWhy = a.o.Agent.Unreleased()
	if d.Shards > 0 {
		d.BlockedBy = cmp.Or(a.o.MapStays(), a.o.Agent.KeptByDrain(d.Shards))
	}
	return d
}

// DrainState returns the progress of the drain of a node. It asks that node and combines the response
// with the log of this node, within runningTimeout. If that node does not respond, it also asks the leader,
// within leaderloop.ViewTimeout, whether the node still sends heartbeats.
func (a *API) DrainState(ctx context.Context, node string) (api.DrainState, error) {
	s := a.o.View.State()
	id := shardmap.NodeID(node)
	if !s.Policy().IsDraining(id) && !a.o.View.HasNode(node) {
		return api.DrainState{}, a.o.View.UnknownNode(node)
	}
	askCtx, cancel := context.WithTimeout(ctx, runningTimeout)
	defer cancel()
	d, err := a.drainAt(askCtx, node)
	var views []leader.MemberView
	if err != nil {
		views = a.o.Leader.Views(ctx)
		d.Unconfirmed = mayRun(views, node)
	}
	known := a.leftAt(s, id)
	d.Node, d.Shards, d.Requested = known.Node, max(d.Shards, known.Shards), d.Requested || s.Policy().IsDraining(id)
	if !d.Requested {
		d.BlockedBy = "" // without a drain, the shards need not move
	}
	if !d.Requested || !d.Left() || d.BlockedBy != "" {
		return d, nil // WaitsFor is only for a drain that makes progress
	}
	if err == nil {
		views = a.o.Leader.Views(askCtx)
	} else {
		d.BlockedBy = a.unansweredStays(node, views)
	}
	d.WaitsFor = waitsFor(s, id, d, views)
	return d, nil
}

// drainAt asks a node for the progress of its drain. If the request fails, the counts that only that node
// can determine are -1.
func (a *API) drainAt(ctx context.Context, node string) (api.DrainState, error) {
	if node == string(a.o.Self) {
		return a.LocalDrain(), nil
	}
	var d api.DrainState
	err := a.o.Client.Call(ctx, node, control.Request{Kind: control.Drain}, &d)
	if err != nil {
		a.o.Log.Debug().Err(err).Str("peer", node).Msg("node did not report drain state")
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

// LocalDrain returns the progress of a drain of this node. In contrast to SelfState, it includes a drain
// that an operator has requested from the cluster, which the log contains.
func (a *API) LocalDrain() api.DrainState {
	d := a.SelfState()
	d.Requested = d.Requested || a.o.View.State().Policy().IsDraining(a.o.Self)
	return d
}

// unansweredStays returns why no other node takes over the shards of a node that does not respond. Empty
// means that other nodes take them over. A takeover needs a leader and another node that may own shards.
func (a *API) unansweredStays(node string, views []leader.MemberView) string {
	switch {
	case a.o.View.Leader() == "":
		return "no leader: " + a.WhyNoLeader()
	case views != nil && !slices.ContainsFunc(views, func(v leader.MemberView) bool { return v.Eligible && string(v.Node) != node }):
		return NobodyElse
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
		return "requests and WebSockets are still in progress at its app"
	case s.HasOpenProposal() && s.Proposed().ShardCount(id) < s.Committed().ShardCount(id):
		return fmt.Sprintf("epoch %d is not acknowledged by %s", s.Proposed().Epoch(), unacknowledged(s, views))
	case gentle:
		return fmt.Sprintf("busy shards move at the latest %s after the drain began", emptying.Duration)
	case v.DefersMoves:
		return fmt.Sprintf("%d busy shards move when their requests have ended, at the latest drain-timeout after the drain began", d.Shards)
	}
	return "the leader has not proposed a shard map without the node yet"
}

// unacknowledged lists the members that have not acknowledged the open proposal, as the end of a sentence.
func unacknowledged(s *ack.State, views []leader.MemberView) string {
	var names []string
	for _, v := range views {
		member := s.Proposed().IsMember(v.Node) || s.Committed().IsMember(v.Node)
		if member && !v.Restarting && v.Heartbeat.Acked < s.Proposed().Epoch() {
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
func (a *API) leftAt(s *ack.State, id shardmap.NodeID) api.DrainState {
	return api.DrainState{Node: string(id), Shards: max(s.Committed().ShardCount(id), s.Proposed().ShardCount(id))}
}

// NobodyElse is the reason why shards stay although the cluster has a leader.
const NobodyElse = "no other node can own them"
