package adminapi

import (
	"cmp"
	"context"
	"slices"
	"time"

	"shardway/ack"
	"shardway/ack/leader"
	"shardway/admin/api"
	"shardway/diagnosis"
	"shardway/endpoints"
	"shardway/node/consensus"
	"shardway/node/gossip"
	"shardway/node/leaderloop"
	"shardway/shardmap"
)

// MovingShards returns the number of shards that the open proposal moves; zero if no proposal is open.
func MovingShards(replicated *ack.State) int {
	if !replicated.HasOpenProposal() {
		return 0
	}
	return len(shardmap.Diff(replicated.Committed(), replicated.Proposed()))
}

// nodeState returns the state of this node, as docs/internals/protocol.md names it, computed from a replicated
// state. All parts of one status use the same replicated state, so that they are consistent.
func (a *API) nodeState(replicated *ack.State) string {
	switch {
	case a.options.IsStopping():
		return "stopping"
	case a.options.Agent.IsLeaving():
		return "draining"
	case a.options.IsStopRequested():
		return "stopping" // a restart in place: the node keeps its shards
	}
	isGateway, isDrained, hasLeader := a.options.Gateway, a.options.View.IsDrained(), a.options.View.Leader() != ""
	isInMap := replicated.Proposed().IsMember(a.options.Self)
	if hasMap := replicated.Committed().Epoch() != 0; !hasMap {
		if hasLeader {
			return "joining"
		}
		return "starting"
	}
	if !isInMap && a.isAppUnhealthy() { // excluded because of its app
		return "unhealthy"
	}
	if mustBeInMap := !isGateway && !isDrained; mustBeInMap && !isInMap {
		return "joining"
	}
	if isGateway && !hasLeader || !isGateway && !a.options.Router.HasLease() {
		return "electing"
	}
	switch {
	case isDrained && replicated.Committed().ShardCount(a.options.Self) > 0:
		return "draining"
	case isDrained:
		return "drained"
	case replicated.HasOpenProposal():
		return "rebalancing"
	}
	return "operational"
}

// isAppUnhealthy reports whether the app fails its health checks. Before the first check it returns false.
func (a *API) isAppUnhealthy() bool {
	return a.options.Health != nil && a.options.Health.Checked() && !a.options.Health.Healthy()
}

// Ready returns nil if this node is ready for requests, otherwise an *api.UnreadyError with the reason. It
// uses the same lease check as the admission of requests (Router.HasLease).
func (a *API) Ready() error {
	committed := a.options.Router.State().Committed()
	switch {
	case a.options.IsStopping() || a.options.Agent.IsLeaving():
		return a.unreadyError("draining", diagnosis.Draining)
	case a.options.IsStopRequested():
		return a.unreadyError("stopping")
	case committed.Epoch() == 0:
		return a.unreadyError("no shard map yet", diagnosis.NoPeers, diagnosis.Bootstrapping, diagnosis.NoQuorum, diagnosis.DiskStalled, diagnosis.NoHealthyApp, diagnosis.ClustersDiffer, diagnosis.PeerPortUnreachable, diagnosis.Joining, diagnosis.Unavailable)
	case a.options.Gateway:
		return a.gatewayReady()
	case !a.options.Router.HasLease():
		return a.noLeaseError()
	}
	isUnhealthy := a.options.Health != nil && !a.options.Health.Healthy()
	// An unhealthy node may keep its shards. It serves them if its app still accepts connections.
	if isUnhealthy && (a.options.Health.Report().Refused || !a.options.Findings().keepsShards(string(a.options.Self))) {
		return a.unreadyError("the app does not answer", diagnosis.NoHealthyApp, diagnosis.HealthPanic, diagnosis.AppUnhealthy)
	}
	if !committed.IsMember(a.options.Self) && !a.options.View.IsDrained() {
		return a.unreadyError("joining: not in the shard map yet", diagnosis.Joining)
	}
	return nil
}

// gatewayReady is Ready for a gateway, which needs neither an app nor a lease.
func (a *API) gatewayReady() error {
	_, hasNoQuorum := a.options.Findings().first(diagnosis.NoQuorum, diagnosis.NoPeers)
	if hasNoQuorum && a.options.View.Leader() == "" {
		return a.unreadyError("there is no leader", diagnosis.NoQuorum, diagnosis.NoPeers)
	}
	return nil
}

// noLeaseError returns the error of Ready for a node without a lease.
func (a *API) noLeaseError() error {
	if a.options.Agent.HasDuplicate() {
		return a.unreadyError("duplicate-node", diagnosis.DuplicateNode)
	}
	if a.options.View.Leader() == "" {
		return a.unreadyError("no lease, because there is no leader", diagnosis.NoQuorum, diagnosis.DiskStalled, diagnosis.NoPeers, diagnosis.NoLease)
	}
	return a.unreadyError("no lease", diagnosis.NoLease)
}

// unreadyError returns the error of Ready. brief is the reason in short. The details come from the finding with
// the first of codes that this node has, if there is one.
func (a *API) unreadyError(brief string, codes ...diagnosis.Code) error {
	unready := &api.UnreadyError{Brief: brief}
	if finding, ok := a.options.Findings().first(codes...); ok {
		unready.Why = finding.String()
	}
	return unready
}

// Status returns this node's view of itself and of the cluster.
func (a *API) Status() api.Status {
	replicated := a.options.Router.State()
	cluster, _ := a.options.Dir.Cluster()
	queue := a.options.Queue.Stats()
	var timing *api.TimingState
	if latest := a.options.View.State(); latest.Bootstrapped() {
		state := leaderloop.TimingState(latest)
		timing = &state
	}
	findings := a.options.Findings().update(replicated.Committed(), a.options.View.Leader(), a.options.Router.HasLease())
	views := a.options.Leader.Views(context.Background())
	return api.Status{
		Node: string(a.options.Self), Boot: a.options.Dir.Boot(), Cluster: cluster, Version: a.options.Version,
		State: a.nodeState(replicated), Role: a.role(), Leader: a.options.View.Leader(), Term: a.options.View.Raft.Term(),
		Epoch: uint64(replicated.Committed().Epoch()), Proposed: uint64(replicated.Proposed().Epoch()),
		LeaseMS: leaseMilliseconds(a.options.Router.LeaseLeft()), UptimeS: int64(time.Since(a.options.Started()).Seconds()),
		Shards: api.ShardCounts{
			Total: a.options.Shards, Owned: replicated.Committed().ShardCount(a.options.Self), Held: a.options.HeldShardCount(),
			Moving: MovingShards(replicated), Orphaned: replicated.Committed().OrphanCount(), Unavailable: findings.Inputs.CountUnavailable(),
		},
		Timing:        timing,
		FormatVersion: uint8(a.options.View.State().FormatVersion()),
		Queue:         api.QueueCounts{Queued: queue.Waiting, Bytes: queue.Bytes},
		Sockets:       a.WebSockets.localCounts(),
		Nodes:         a.Nodes(replicated, views),
		Keys:          keysState(replicated, loadedKeys{string(a.options.Self), a.options.LoadedKeys()}, views),
		Findings:      findings.List,
	}
}

// role returns the role of this node in Raft, or "gateway".
func (a *API) role() string {
	switch {
	case a.options.Leader.Leadership() != nil:
		return "leader"
	case a.options.Gateway:
		return "gateway"
	case a.options.View.Raft.IsCandidate():
		return "candidate"
	}
	return "follower"
}

// Idle returns why an owner does not serve its shards, as far as this node can determine. Empty means that
// the owner serves them.
func (a *API) Idle(owner string) string {
	findings := a.options.Findings()
	return findings.Inputs.NotServingReason(owner)
}

// Nodes lists the nodes that gossip, Raft's configuration or the map of the replicated state contains,
// sorted by ID. views is the leader's view of the nodes; nil means that the leader did not respond.
func (a *API) Nodes(replicated *ack.State, views []leader.MemberView) []api.Node {
	voters, nonvoters := a.options.View.Servers()
	nodes := knownNodes(a.options.View.Gossip.Members(), voters, nonvoters, replicated)
	leaderID, policy, committed := a.options.View.Leader(), a.options.View.State().Policy(), replicated.Committed()
	list := make([]api.Node, 0, len(nodes))
	for name, node := range nodes {
		id := shardmap.NodeID(name)
		if weight := replicated.Policy().Weights[id]; weight > 0 {
			node.Weight = weight // an operator's weight replaces the weight that the node announces
		}
		node.Shards = committed.ShardCount(id)
		isAlive := node.State == gossipState(gossip.Alive)
		if isAlive {
			node.State = aliveNodeState(node, policy, replicated.Proposed().IsMember(id))
		}
		if view, isKnown := leaderloop.FindMember(views, name); isKnown {
			hasMap := committed.Epoch() > 0
			refineWithLeaderView(node, view, isAlive, hasMap)
		}
		if name == leaderID {
			node.Role = "leader"
		}
		list = append(list, *node)
	}
	slices.SortFunc(list, func(a, b api.Node) int { return cmp.Compare(a.ID, b.ID) })
	return list
}

// knownNodes returns the nodes that gossip (members), Raft's configuration (voters and nonvoters) or the map
// contains, by ID. Their states come from gossip, and those of previous members from the log.
func knownNodes(members []gossip.Member, voters, nonvoters []string, replicated *ack.State) map[string]*api.Node {
	nodes := map[string]*api.Node{}
	nodeOf := func(id string) *api.Node {
		if nodes[id] == nil {
			nodes[id] = &api.Node{ID: id, State: "failed", Role: "follower", Weight: 1, App: "unknown", LastHeartbeatMS: -1, Endpoints: map[string]string{}}
		}
		return nodes[id]
	}
	for _, server := range slices.Concat(voters, nonvoters) {
		nodeOf(consensus.NodeOf(server)).Voter = slices.Contains(voters, server)
	}
	for _, member := range replicated.Committed().Members() {
		nodeOf(string(member.ID)).Weight = member.Weight
	}
	for _, member := range members {
		if !member.Node {
			continue
		}
		node := nodeOf(member.ID)
		node.AppVersion = member.Tags.AppVersion
		node.Zone, node.Weight, node.Endpoints = member.Tags.Zone, max(member.Tags.Weight, 1), member.Tags.Endpoints
		if member.Tags.Role == gossip.RoleGateway {
			node.Role, node.App = gossip.RoleGateway, "none"
		}
		node.State = gossipState(member.Status)
	}
	for _, id := range replicated.FormerMembers() { // gossip does not contain them on nodes that joined later
		if node := nodeOf(string(id)); node.State == "left" || node.State == "failed" {
			node.State = "left"
			if replicated.IsDropped(id) {
				node.State = "failed"
			}
		}
	}
	return nodes
}

// gossipState returns the state of a node, computed from gossip alone. API.Nodes refines it.
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

// aliveNodeState returns the state of a node that is alive in gossip, computed from the map and the policy.
func aliveNodeState(node *api.Node, policy *ack.Policy, isInMap bool) string {
	if node.Role == gossip.RoleGateway {
		return "active" // a gateway is never in the map
	}
	id := shardmap.NodeID(node.ID)
	switch {
	case policy.IsDraining(id) && node.Shards > 0:
		return "draining"
	case policy.Drained[id]:
		return "drained"
	case policy.Cordoned[id] && isInMap:
		return "cordoned"
	case isInMap:
		return "active"
	}
	return "joining"
}

// refineWithLeaderView refines the state of a node with the leader's view of it. isAlive means that the node is
// alive in gossip.
func refineWithLeaderView(node *api.Node, view leader.MemberView, isAlive, hasMap bool) {
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
		// The leader has received the goodbye of the node, without an announced return. Gossip does not
		// distribute that to nodes that joined later.
		node.State = "left"
	}
	if !isAlive {
		return // the last heartbeat of an absent node contains an outdated state of its app
	}
	if (view.Silent || view.Crashed) && hasMap {
		node.State = "failed"
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

// Shards lists every shard in order.
func (a *API) Shards() api.ShardList {
	replicated := a.options.Router.State()
	committed := replicated.Committed()
	list := api.ShardList{Epoch: uint64(committed.Epoch()), Proposed: uint64(replicated.Proposed().Epoch()), Total: committed.Len(), Shards: make([]api.Shard, committed.Len())}
	notServingReason := a.options.Findings().notServingReasons()
	for i := range list.Shards {
		shard := shardmap.Shard(i)
		list.Shards[i] = api.Shard{
			Shard: uint32(i), State: api.ShardOwned, Owner: string(committed.Owner(shard)), Epoch: uint64(committed.OwnedSince(shard)),
			Previous: string(replicated.PreviousOwner(shard)),
		}
		_, _, list.Shards[i].Released = replicated.ReleaseNote(shard)
		list.Shards[i].Unavailable = notServingReason(list.Shards[i].Owner)
		list.Shards[i].StaleReturn = replicated.IsBarred(committed.Owner(shard), shard)
		switch {
		case replicated.HasOpenProposal() && replicated.Proposed().Owner(shard) != committed.Owner(shard):
			list.Shards[i].State, list.Shards[i].To = api.ShardMoving, string(replicated.Proposed().Owner(shard))
		case committed.Owner(shard) == "":
			list.Shards[i].State = api.ShardOrphaned
		}
	}
	return list
}

// Endpoints lists the endpoints that the present members of gossip announce, including members that are
// not nodes.
func (a *API) Endpoints() []api.Endpoint {
	present := map[string]bool{}
	for _, member := range a.options.View.Gossip.Members() {
		present[member.ID] = member.Status == gossip.Alive || member.Status == gossip.Leaving
	}
	var list []api.Endpoint
	for _, entry := range a.options.View.Directory().All() {
		if !present[entry.ID] {
			continue
		}
		kind := api.KindMember
		if entry.IsNode {
			kind = api.KindNode
		}
		list = append(list, api.Endpoint{Node: entry.ID, Kind: kind, Name: entry.Name, Addr: entry.Addr})
	}
	return list
}

// Map returns the committed shard map in the form of the admin API.
func (a *API) Map() api.Map {
	committed := a.options.Router.State().Committed()
	result := api.Map{Epoch: uint64(committed.Epoch()), Shards: committed.Len(), Hash: api.HashName, Nodes: []api.MapNode{}, Owners: make([]int, 0, committed.Len())}
	directory := a.options.View.Directory()
	for _, member := range committed.Members() {
		addr, _ := directory.Addr(string(member.ID), endpoints.HTTP)
		result.Nodes = append(result.Nodes, api.MapNode{ID: string(member.ID), HTTP: addr})
	}
	if committed.Epoch() > 0 {
		for i := range committed.Len() {
			result.Owners = append(result.Owners, committed.OwnerIndex(shardmap.Shard(i)))
		}
	}
	return result
}

// WaitMap returns when the epoch of the committed map is greater than after, or when ctx ends.
func (a *API) WaitMap(ctx context.Context, after uint64) { a.options.Router.Await(ctx, after+1, 0) }
