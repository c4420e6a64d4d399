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

// nodeState returns the state of this node, as docs/internals/protocol.md names it.
func (a *API) nodeState() string { return a.nodeStateIn(a.options.Router.State()) }

// nodeStateIn returns the state of this node, computed from a replicated state. All parts of one status use
// the same replicated state, so that they are consistent.
func (a *API) nodeStateIn(replicated *ack.State) string {
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
	if isUnhealthy && !a.keepsShardsWhileUnhealthy() {
		return a.unreadyError("the app does not answer", diagnosis.NoHealthyApp, diagnosis.HealthPanic, diagnosis.AppUnhealthy)
	}
	if !committed.IsMember(a.options.Self) && !a.options.View.IsDrained() {
		return a.unreadyError("joining: not in the shard map yet", diagnosis.Joining)
	}
	return nil
}

// gatewayReady is Ready for a gateway, which needs neither an app nor a lease.
func (a *API) gatewayReady() error {
	_, hasNoQuorum := a.findFirst(diagnosis.NoQuorum, diagnosis.NoPeers)
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

// keepsShardsWhileUnhealthy reports whether this node serves its shards although its app is unhealthy: the leader
// lets the node keep them because most apps are unhealthy, and the app still accepts connections.
func (a *API) keepsShardsWhileUnhealthy() bool {
	if a.options.Health.Report().Refused {
		return false
	}
	for _, node := range a.options.Findings().Inputs.Nodes {
		if node.ID == string(a.options.Self) {
			return node.KeepsShards
		}
	}
	return false
}

// unreadyError returns the error of Ready. brief is the reason in short. The details come from the finding with
// the first of codes that this node has, if there is one.
func (a *API) unreadyError(brief string, codes ...diagnosis.Code) error {
	unready := &api.UnreadyError{Brief: brief}
	if finding, ok := a.findFirst(codes...); ok {
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
	inputs, findings := a.updatedFindings(replicated)
	views := a.options.Leader.Views(context.Background())
	return api.Status{
		Node: string(a.options.Self), Boot: a.options.Dir.Boot(), Cluster: cluster, Version: a.options.Version,
		State: a.nodeStateIn(replicated), Role: a.role(), Leader: a.options.View.Leader(), Term: a.options.View.Raft.Term(),
		Epoch: uint64(replicated.Committed().Epoch()), Proposed: uint64(replicated.Proposed().Epoch()),
		LeaseMS: leaseMilliseconds(a.options.Router.LeaseLeft()), UptimeS: int64(time.Since(a.options.Started()).Seconds()),
		Shards: api.ShardCounts{
			Total: a.options.Shards, Owned: replicated.Committed().ShardCount(a.options.Self), Held: a.options.HeldShardCount(),
			Moving: MovingShards(replicated), Orphaned: replicated.Committed().OrphanCount(), Unavailable: inputs.CountUnavailable(),
		},
		Timing:        timing,
		FormatVersion: uint8(a.options.View.State().FormatVersion()),
		Queue:         api.QueueCounts{Queued: queue.Waiting, Bytes: queue.Bytes},
		Sockets:       a.countWebSockets(),
		Nodes:         a.Nodes(replicated, views),
		Keys:          a.keysState(replicated, views),
		Findings:      findings,
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

// updatedFindings returns the inputs and findings of the last run of the monitor (findings.Monitor), updated to a
// replicated state and to the present lease. The monitor runs only at intervals, so without the update the
// state and the findings of one status could contradict each other.
func (a *API) updatedFindings(replicated *ack.State) (diagnosis.Inputs, []diagnosis.Finding) {
	latest := a.options.Findings()
	leaderID := a.options.View.Leader()
	committed := replicated.Committed()
	epoch, hasMap := uint64(committed.Epoch()), committed.Epoch() != 0
	isSameMap := latest.Inputs.Epoch == epoch && latest.Inputs.HasMap == hasMap
	hasNewLease := latest.Inputs.NoLeaseFor != 0 && a.options.Router.HasLease()
	hasNewLeader := latest.Inputs.Leader == "" && leaderID != ""
	if isSameMap && !hasNewLease && !hasNewLeader {
		return latest.Inputs, latest.List
	}
	inputs := latest.Inputs
	inputs.Epoch, inputs.HasMap = epoch, hasMap
	inputs.Orphaned = min(inputs.Orphaned, committed.OrphanCount())
	if leaderID != "" {
		inputs.Leader, inputs.NoLeaderFor = leaderID, 0
	}
	if hasNewLease {
		inputs.NoLeaseFor = 0
	}
	inputs.Nodes = slices.Clone(inputs.Nodes)
	for i := range inputs.Nodes {
		node := &inputs.Nodes[i]
		node.Shards = committed.ShardCount(shardmap.NodeID(node.ID))
		node.Lost = node.Lost && node.Shards > 0
	}
	return inputs, diagnosis.Findings(inputs)
}

// Findings returns the current findings of this node. The caller must not modify the slice.
func (a *API) Findings() []diagnosis.Finding { return a.options.Findings().List }

// findFirst returns the finding with the first of codes that this node has. The second result is false
// if there is none.
func (a *API) findFirst(codes ...diagnosis.Code) (diagnosis.Finding, bool) {
	findings := a.Findings()
	for _, code := range codes {
		if i := slices.IndexFunc(findings, func(finding diagnosis.Finding) bool { return finding.Code == code }); i >= 0 {
			return findings[i], true
		}
	}
	return diagnosis.Finding{}, false
}

// Idle returns why an owner does not serve its shards, as far as this node can determine. Empty means that
// the owner serves them.
func (a *API) Idle(owner string) string {
	latest := a.options.Findings()
	return latest.Inputs.NotServingReason(owner)
}

// Nodes lists the nodes that gossip, Raft's configuration or the map of the replicated state contains,
// sorted by ID. views is the leader's view of the nodes; nil means that the leader did not respond.
func (a *API) Nodes(replicated *ack.State, views []leader.MemberView) []api.Node {
	nodes := a.knownNodes(replicated)
	leaderID := a.options.View.Leader()
	requestedWeights := replicated.Policy().Weights
	list := make([]api.Node, 0, len(nodes))
	for id, node := range nodes {
		if weight := requestedWeights[shardmap.NodeID(id)]; weight > 0 {
			node.Weight = weight // an operator's weight replaces the weight that the node announces
		}
		view, hasView := leaderloop.FindMember(views, id)
		a.refineNodeState(node, replicated, view, hasView)
		if id == leaderID {
			node.Role = "leader"
		}
		list = append(list, *node)
	}
	slices.SortFunc(list, func(a, b api.Node) int { return cmp.Compare(a.ID, b.ID) })
	return list
}

// knownNodes returns the nodes that gossip, Raft's configuration or the map contains, by ID. Their states come from
// gossip, and those of previous members from the log.
func (a *API) knownNodes(replicated *ack.State) map[string]*api.Node {
	nodes := map[string]*api.Node{}
	nodeOf := func(id string) *api.Node {
		if nodes[id] == nil {
			nodes[id] = &api.Node{ID: id, State: "failed", Role: "follower", Weight: 1, App: "unknown", LastHeartbeatMS: -1, Endpoints: map[string]string{}}
		}
		return nodes[id]
	}
	voters, nonvoters := a.options.View.Servers()
	for _, server := range slices.Concat(voters, nonvoters) {
		nodeOf(consensus.NodeOf(server)).Voter = slices.Contains(voters, server)
	}
	for _, member := range replicated.Committed().Members() {
		nodeOf(string(member.ID)).Weight = member.Weight
	}
	for _, member := range a.options.View.Gossip.Members() {
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

// gossipState returns the state of a node, computed from gossip alone. refineNodeState refines it.
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

// refineNodeState refines the state of a node that came from gossip, with the map, the policy and, if hasView is
// true, the leader's view of the node.
func (a *API) refineNodeState(node *api.Node, replicated *ack.State, view leader.MemberView, hasView bool) {
	id := shardmap.NodeID(node.ID)
	node.Shards = replicated.Committed().ShardCount(id)
	isAlive := node.State == gossipState(gossip.Alive)
	if isAlive {
		node.State = a.aliveNodeState(node, replicated.Proposed().IsMember(id))
	}
	if hasView {
		hasMap := replicated.Committed().Epoch() > 0
		refineWithLeaderView(node, view, isAlive, hasMap)
	}
}

// aliveNodeState returns the state of a node that is alive in gossip, computed from the map and the policy.
func (a *API) aliveNodeState(node *api.Node, isInMap bool) string {
	if node.Role == gossip.RoleGateway {
		return "active" // a gateway is never in the map
	}
	id, policy := shardmap.NodeID(node.ID), a.options.View.State().Policy()
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

// cachedIdle returns a function that does the same as Idle, but always uses the inputs of this moment and
// computes the result for each owner only once. Callers with many shards use it.
func (a *API) cachedIdle() func(owner string) string {
	inputs, reasons := a.options.Findings().Inputs, map[string]string{}
	return func(owner string) string {
		reason, known := reasons[owner]
		if !known {
			reason = inputs.NotServingReason(owner)
			reasons[owner] = reason
		}
		return reason
	}
}

// Shards lists every shard in order.
func (a *API) Shards() api.ShardList {
	replicated := a.options.Router.State()
	committed := replicated.Committed()
	list := api.ShardList{Epoch: uint64(committed.Epoch()), Proposed: uint64(replicated.Proposed().Epoch()), Total: committed.Len(), Shards: make([]api.Shard, committed.Len())}
	idleReason := a.cachedIdle()
	for i := range list.Shards {
		shard := shardmap.Shard(i)
		list.Shards[i] = api.Shard{
			Shard: uint32(i), State: api.ShardOwned, Owner: string(committed.Owner(shard)), Epoch: uint64(committed.OwnedSince(shard)),
			Previous: string(replicated.PreviousOwner(shard)),
		}
		_, _, list.Shards[i].Released = replicated.ReleaseNote(shard)
		list.Shards[i].Unavailable = idleReason(list.Shards[i].Owner)
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
