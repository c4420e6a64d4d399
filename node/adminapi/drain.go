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
	risk := a.stopRisk()
	if a.options.Agent.Leave() {
		a.options.Log.Info().Str("endangers", risk).Msg("draining, requested on this machine")
	}
	state := a.SelfState()
	state.Warning = risk
	return state
}

// stopRisk returns why the cluster would lose its quorum, its last owner or the last node of a service if this
// node stopped. Empty means that the node can stop safely.
func (a *API) stopRisk() string {
	voters, _ := a.options.View.Servers()
	views := a.options.Leader.Views(context.Background())
	if len(views) == 0 {
		return "no leader responds, and no shard moves without a leader: " + a.WhyNoLeader()
	}
	state := a.options.View.State()
	risk, _ := leaderloop.StopRisk(a.options.Self, voters, views, state.Policy())
	isLeaving := func(node string) bool { return state.Policy().IsDraining(shardmap.NodeID(node)) }
	return cmp.Or(risk, serviceList(state, views).DrainWarning(string(a.options.Self), isLeaving))
}

// SelfState returns the progress of the drain started by DrainSelf.
func (a *API) SelfState() api.DrainState {
	state := remainingShards(a.options.Router.State(), a.options.Self)
	state.Requested = a.options.Agent.IsLeaving()
	state.Requests, state.Sockets = a.Running.counts()
	state.Held = a.options.HeldShardCount()
	state.Unreleased, state.UnreleasedWhy = a.options.Agent.Unreleased()
	if state.Shards > 0 {
		state.BlockedBy = cmp.Or(a.options.NoTakeoverReason(), a.options.Agent.DrainBlockReason(state.Shards))
	}
	return state
}

// DrainState returns the progress of a node's drain. It queries that node within nodeRequestTimeout and combines
// the response with this node's log. If that node does not respond, it also asks the leader, within
// leaderloop.ViewTimeout, whether the node still sends heartbeats.
func (a *API) DrainState(ctx context.Context, node string) (api.DrainState, error) {
	replicated := a.options.View.State()
	id := shardmap.NodeID(node)
	if owner, instance, isInstance := shardmap.ParseInstance(id); isInstance {
		return a.instanceDrainState(replicated, owner, instance)
	}
	if !replicated.Policy().IsDraining(id) && !a.options.View.HasNode(node) {
		return api.DrainState{}, a.options.View.UnknownNode(node)
	}
	requestCtx, cancel := context.WithTimeout(ctx, nodeRequestTimeout)
	defer cancel()
	drain, err := a.fetchDrainState(requestCtx, node)
	var views []leader.MemberView
	if err != nil {
		views = a.options.Leader.Views(ctx)
		drain.Unconfirmed = mayBeRunning(views, node)
	}
	fromLog := remainingShards(replicated, id)
	drain.Node = fromLog.Node
	drain.Shards = max(drain.Shards, fromLog.Shards)
	drain.Requested = drain.Requested || replicated.Policy().IsDraining(id)
	if !drain.Requested {
		drain.BlockedBy = "" // without a drain, the shards need not move
		return drain, nil
	}
	if isBlocked := drain.BlockedBy != ""; isBlocked || !drain.Left() {
		return drain, nil // WaitsFor applies only to a drain that makes progress
	}
	if err == nil {
		views = a.options.Leader.Views(requestCtx)
	} else {
		drain.BlockedBy = a.takeoverBlockReason(node, views)
	}
	drain.WaitsFor = describeDrainWait(replicated, id, drain, views)
	return drain, nil
}

// fetchDrainState asks a node for the progress of its drain. If the request fails, the counts that only that node
// can determine are -1.
func (a *API) fetchDrainState(ctx context.Context, node string) (api.DrainState, error) {
	if node == string(a.options.Self) {
		return a.LocalDrain(), nil
	}
	var drain api.DrainState
	err := a.options.Client.Call(ctx, node, control.Request{Kind: control.Drain}, &drain)
	if err != nil {
		a.options.Log.Debug().Err(err).Str("peer", node).Msg("node did not report drain state")
		drain = api.DrainState{Requests: -1, Sockets: -1, Held: -1}
	}
	return drain, err
}

// mayBeRunning reports whether a node that does not respond may still run requests. views is the leader's view of
// the nodes; nil means unknown. A node that sends heartbeats is alive, though perhaps too slow to respond.
func mayBeRunning(views []leader.MemberView, node string) bool {
	member, known := leaderloop.FindMember(views, node)
	return views == nil || known && leaderloop.IsAlive(member)
}

// LocalDrain returns the progress of a drain of this node. Unlike SelfState, it includes a drain that an operator
// requested through the cluster, which is recorded in the log.
func (a *API) LocalDrain() api.DrainState {
	drain := a.SelfState()
	drain.Requested = drain.Requested || a.options.View.State().Policy().IsDraining(a.options.Self)
	return drain
}

// takeoverBlockReason returns why no other node takes over the shards of an unresponsive node, or an empty string
// if one does. A takeover needs a leader and another node that may own shards.
func (a *API) takeoverBlockReason(node string, views []leader.MemberView) string {
	switch {
	case a.options.View.Leader() == "":
		return "no leader: " + a.WhyNoLeader()
	case views != nil && !hasOtherOwner(views, node):
		return NoOtherOwner
	}
	return ""
}

// hasOtherOwner reports whether a node other than the given one may own shards.
func hasOtherOwner(views []leader.MemberView, node string) bool {
	return slices.ContainsFunc(views, func(member leader.MemberView) bool { return member.Eligible && string(member.Node) != node })
}

// describeDrainWait describes the condition that a drained node must meet before it owns no shards and runs no
// requests. views is the leader's view of the nodes; nil means unknown.
func describeDrainWait(replicated *ack.State, id shardmap.NodeID, drain api.DrainState, views []leader.MemberView) string {
	member, _ := leaderloop.FindMember(views, string(id))
	gradualDrain, isGradual := replicated.Policy().GradualDrains[id]
	isMovingShards := replicated.HasOpenProposal() && replicated.Proposed().ShardCount(id) < replicated.Committed().ShardCount(id)
	switch {
	case member.Restarting:
		return "the node restarts in place"
	case drain.Shards == 0 && drain.Unconfirmed:
		return "the node is alive but does not report its requests"
	case drain.Shards == 0:
		return "requests and WebSockets are still in progress at its app"
	case isMovingShards:
		return fmt.Sprintf("epoch %d is not acknowledged by %s", replicated.Proposed().Epoch(), listUnacknowledged(replicated, views))
	case isGradual:
		return fmt.Sprintf("busy shards move at the latest %s after the drain began", gradualDrain.Duration)
	case member.DefersMoves:
		return fmt.Sprintf("%d busy shards move when their requests have ended, at the latest drain-timeout after the drain began", drain.Shards)
	}
	return "the leader has not proposed a shard map without the node yet"
}

// listUnacknowledged lists the members that have not acknowledged the open proposal, phrased to end a sentence.
func listUnacknowledged(replicated *ack.State, views []leader.MemberView) string {
	var names []string
	for _, member := range views {
		inMap := replicated.Proposed().IsMember(member.Node) || replicated.Committed().IsMember(member.Node)
		if inMap && !member.Restarting && member.Heartbeat.Acked < replicated.Proposed().Epoch() {
			names = append(names, string(member.Node))
		}
	}
	if len(names) == 0 {
		return "all nodes yet"
	}
	return "node " + strings.Join(names, ", ")
}

// remainingShards returns a DrainState with the number of shards that the node owns in the committed or the
// proposed map, whichever is greater.
func remainingShards(replicated *ack.State, id shardmap.NodeID) api.DrainState {
	return api.DrainState{Node: string(id), Shards: max(replicated.Committed().ShardCount(id), replicated.Proposed().ShardCount(id))}
}

// NoOtherOwner is the reason why shards stay on their node although the cluster has a leader.
const NoOtherOwner = "no other node can own them"
