package adminapi

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"shardway/ack"
	"shardway/ack/leader"
	"shardway/admin/api"
	"shardway/node/consensus"
	"shardway/node/gossip"
	"shardway/node/leaderloop"
	"shardway/shardmap"
)

// Nodes lists the nodes that are known from gossip, from Raft's configuration or from the shard map of
// raftState, sorted by ID. views is the leader's view of the nodes; nil means that the leader did not
// respond.
func (a *API) Nodes(raftState *ack.State, views []leader.MemberView) []api.Node {
	return a.listNodes(raftState, views, a.options.View.Leader())
}

// listNodes returns the result of Nodes while leaderID leads; leaderID is "" if there is no leader.
func (a *API) listNodes(raftState *ack.State, views []leader.MemberView, leaderID string) []api.Node {
	voters, nonvoters := a.options.View.Servers()
	nodes := knownNodes(a.options.View.Gossip.Members(), voters, nonvoters, raftState)
	policy, committed := a.options.View.State().Policy(), raftState.Committed()
	list := make([]api.Node, 0, len(nodes))
	for name, node := range nodes {
		id := shardmap.NodeID(name)
		if weight := raftState.Policy().Weights[id]; weight > 0 {
			node.Weight = weight // an operator's weight replaces the weight that the node announces
		}
		node.Shards = committed.ShardCount(id)
		isAlive := node.State == gossipState(gossip.Alive)
		if isAlive {
			node.State = aliveNodeState(node, policy, raftState.Proposed().IsMember(id))
		}
		if view, isKnown := leaderloop.FindMember(views, name); isKnown {
			refineWithLeaderView(node, view, isAlive, missedHeartbeatsState(raftState, view, a.options.View.Timing().DeadAfter))
			node.Instances = instancesOf(committed, policy, view, isAlive && !view.Silent && !view.Crashed)
		}
		if name == leaderID {
			node.Role = "leader"
		}
		list = append(list, *node)
	}
	slices.SortFunc(list, func(a, b api.Node) int { return cmp.Compare(a.ID, b.ID) })
	return list
}

// instancesOf returns the app instances of a node with the leader's view of it, or nil if it has only one. isHeard
// is set if the view contains the current health of the instances. If it is not set, or an instance is no longer
// configured, the result contains the instance only while it owns shards.
func instancesOf(committed *shardmap.Map, policy *ack.Policy, view leader.MemberView, isHeard bool) []api.Instance {
	count := leaderloop.InstanceCount(view)
	if count < 2 {
		return nil
	}
	var instances []api.Instance
	for instance := range shardmap.Instance(count) {
		shards := committed.InstanceCount(view.Node, instance)
		if isGone := !isHeard || view.Heartbeat.RemovedInstances.Has(instance); isGone && shards == 0 {
			continue
		}
		state := "unknown"
		if isHeard {
			state = leaderloop.InstanceState(policy, view, instance, shards)
		}
		instances = append(instances, api.Instance{Number: instance.Number(), State: state, Shards: shards})
	}
	return instances
}

// knownNodes returns the nodes known from gossip (members), from Raft's configuration (voters and nonvoters) or
// from the shard map, by ID. Node states come from gossip; the states of previous members of the map come from the
// Raft log.
func knownNodes(members []gossip.Member, voters, nonvoters []string, raftState *ack.State) map[string]*api.Node {
	nodes := map[string]*api.Node{}
	getOrCreate := func(id string) *api.Node {
		if nodes[id] == nil {
			nodes[id] = &api.Node{ID: id, State: "failed", Role: "follower", Weight: 1, App: "unknown", LastHeartbeatMS: -1, Endpoints: map[string]string{}, Roles: []string{}, Meta: map[string]string{}}
		}
		return nodes[id]
	}
	for _, server := range slices.Concat(voters, nonvoters) {
		getOrCreate(consensus.NodeOf(server)).Voter = slices.Contains(voters, server)
	}
	for _, member := range raftState.Committed().Members() {
		getOrCreate(string(member.ID)).Weight = member.Weight
	}
	for _, member := range members {
		if !member.Node {
			continue
		}
		node := getOrCreate(member.ID)
		node.AppVersion, node.Version, node.Region = member.Tags.AppVersion, member.Tags.Version, member.Tags.Region
		node.Roles = append(node.Roles, member.Tags.Roles...)
		maps.Copy(node.Meta, member.Tags.Meta)
		node.Zone, node.Weight, node.Endpoints = member.Tags.Zone, member.Tags.Weight, member.Tags.Endpoints
		if member.Tags.Role == gossip.RoleGateway {
			node.Role, node.App = gossip.RoleGateway, "none"
		}
		node.State = gossipState(member.Status)
	}
	for _, id := range raftState.FormerMembers() { // nodes that joined later do not know them from gossip
		if node := getOrCreate(string(id)); node.State == "left" || node.State == "failed" {
			node.State = "left"
			if raftState.IsDropped(id) { // the map excludes it because of a failure
				node.State = "failed"
			}
		}
	}
	return nodes
}

// gossipState returns the state of a node according to gossip alone. API.Nodes refines it.
func gossipState(status gossip.Status) string {
	switch status {
	case gossip.Alive:
		return "joining"
	case gossip.Leaving:
		return "draining"
	case gossip.Left:
		return "left"
	case gossip.Failed:
	}
	return "failed"
}

// aliveNodeState returns the state of a node that is alive in gossip, according to the map and the policy.
func aliveNodeState(node *api.Node, policy *ack.Policy, isInMap bool) string {
	if node.Role == gossip.RoleGateway {
		return "active" // a gateway is never in the map
	}
	id := shardmap.NodeID(node.ID)
	switch {
	case policy.MarkedFailed[id]:
		return "failed"
	case policy.IsDraining(id) && node.Shards > 0:
		return "draining"
	case policy.Drained[id]:
		return "drained"
	case (policy.Cordoned[id] || policy.LacksRole(node.Roles)) && isInMap:
		return "cordoned"
	case isInMap:
		return "active"
	}
	return "joining"
}

// missedHeartbeatsState returns the state of a node from which the leader receives no heartbeats: "failed" if the
// node's process has certainly exited, the map excludes the node, or its last heartbeat is older than deadAfter,
// and otherwise "suspect". It returns an empty string if the leader receives heartbeats, or there is no map yet.
func missedHeartbeatsState(raftState *ack.State, view leader.MemberView, deadAfter time.Duration) string {
	committed := raftState.Committed()
	isExcluded := raftState.IsDropped(view.Node) && !committed.IsMember(view.Node)
	switch {
	case committed.Epoch() == 0 || !view.Silent && !view.Crashed:
		return ""
	case view.Crashed || isExcluded || view.SinceHeartbeat >= deadAfter:
		return "failed"
	}
	return "suspect"
}

// refineWithLeaderView refines the state of a node with the leader's view of it. isAlive is set if the node is
// alive in gossip. missedHeartbeats is the result of missedHeartbeatsState.
func refineWithLeaderView(node *api.Node, view leader.MemberView, isAlive bool, missedHeartbeats string) {
	hasHeartbeat := view.SinceHeartbeat >= 0
	if hasHeartbeat {
		node.LastHeartbeatMS = view.SinceHeartbeat.Milliseconds()
	}
	if view.Restarting {
		node.State = "restarting"
		return
	}
	hasLeftForever := view.Heartbeat.Goodbye && view.Heartbeat.RestartWithin == 0
	if node.State == "failed" && hasLeftForever {
		// The node said goodbye to the leader without announcing its return, which gossip does not pass on to nodes
		// that joined later.
		node.State = "left"
	}
	if node.State == "failed" && missedHeartbeats == "suspect" {
		node.State = missedHeartbeats // gossip noticed the silence before the leader, and the node keeps its shards
	}
	if !isAlive {
		return // the last heartbeat of an absent node contains outdated app health
	}
	if missedHeartbeats != "" {
		node.State = missedHeartbeats
		return
	}
	if hasHeartbeat && node.Role != gossip.RoleGateway {
		node.App = "healthy"
		if view.Heartbeat.Unhealthy {
			node.App = "unhealthy"
		}
	}
	if view.Heartbeat.Leaving {
		node.State = "draining"
	} else if node.State == "joining" && node.App == "unhealthy" {
		node.State = "unhealthy"
	}
}
