package findings

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"shardway/ack"
	ackagent "shardway/ack/agent"
	"shardway/ack/leader"
	"shardway/diagnosis"
	"shardway/node/adminapi"
	"shardway/node/consensus"
	"shardway/node/gossip"
	"shardway/node/leaderloop"
	"shardway/proxy/route"
	"shardway/shardmap"
)

const (
	// presenceAfter is how long a node must be present or absent before that counts.
	presenceAfter = time.Second
	// unhealthyAfter is how long an app must be unhealthy, or a log behind, before that counts.
	unhealthyAfter = 2 * time.Second
	// takeoverMargin is the time after dead-after within which the shards of a failed node must have new
	// owners.
	takeoverMargin = 3 * time.Second
	// upToDateAfter is how long this node must have had the newest proposed map of the leader before
	// findings use the state of its log. Until then, the state may be old, and contain drains, cordons,
	// pauses and orphans that have ended.
	upToDateAfter = time.Second
	// pauseShownFor is how long a finding reports a pause of the process after the pause has ended.
	pauseShownFor = time.Minute
)

// inputs collects the inputs of the findings.
func (m *Monitor) inputs(ctx context.Context, now time.Time) diagnosis.Inputs {
	state := m.options.Router.State()
	committed := state.Committed()
	in := diagnosis.Inputs{
		Self: string(m.options.Self), Gateway: m.options.Gateway, Now: now,
		Leader: m.options.View.Leader(), LeaderUnknown: m.options.View.Raft.IsIsolated(), Lease: m.options.View.Timing().Lease, RaftTimeout: m.options.RaftTimeout,
		Shards: m.options.Shards, Epoch: uint64(committed.Epoch()), ProposedEpoch: uint64(state.Proposed().Epoch()), HasMap: committed.Epoch() != 0,
		Stopping: m.options.Agent.IsLeaving() || m.options.IsStopping(),
	}
	if state.Bootstrapped() {
		in.Shards = state.StartedShards()
	}
	isUpToDate := m.upToDate.Update(now, m.options.Agent.IsUpToDate())
	in.NoLeaderFor = m.noLeader.Update(now, in.Leader == "")
	in.NoMapFor = m.noMap.Update(now, in.Leader != "" && !in.HasMap)
	m.addOwnMembership(now, &in, state)
	in.Nodes = m.knownNodes(now, state, in.Leader)
	if !isUpToDate {
		clearReplicatedInputs(in.Nodes)
	}
	adminapi.SetNodeStates(in.Nodes, m.options.API.Nodes(state, m.lastReport.Views))
	ownsShards := committed.ShardCount(m.options.Self) > 0
	m.hasOperated = m.hasOperated || in.HasMap && in.Leader != "" && (!ownsShards || m.options.Router.HasLease())
	in.HasOperated = m.hasOperated
	orphans := state.OrphanCount()
	if m.orphaned.Update(now, isUpToDate && in.HasMap && orphans > 0) {
		in.Orphaned, in.OrphanedServices = orphans, orphanedServices(state)
	}
	m.addUnstartedServices(now, &in, state)
	isOwnerMissing := !hasOwner(in.Nodes, in.Leader)
	in.OnlyGateways = m.onlyGateways.Update(now, isOwnerMissing) && isOwnerMissing
	voters := countVoters(in.Nodes)
	in.EvenVoters = m.evenVoters.Update(now, voters > 0 && voters%2 == 0)
	m.addJoinInputs(now, &in)
	m.addJoinRequests(now, &in, isUpToDate)
	in.AddressChanges = m.options.AddressChanges()
	in.UnreachablePeerPorts = append(m.peerPort.problems(), m.lastReport.Unreachable...)
	m.addAcquisition(now, &in)
	m.addLocalInputs(now, &in)
	if isUpToDate {
		m.addReplicatedInputs(&in)
	}
	m.addContradictions(ctx, now, &in, isUpToDate)
	return in
}

// orphanedServices returns the services that have started and have no shard with an owner. The result is empty if the
// cluster has no list of services.
func orphanedServices(state *ack.State) (names []string) {
	if !state.HasServices() {
		return nil
	}
	for _, service := range state.Services() {
		if state.OrphansOf(service) == service.Shards {
			names = append(names, service.Name)
		}
	}
	slices.Sort(names)
	return names
}

// addUnstartedServices adds the services that no node has run yet.
func (m *Monitor) addUnstartedServices(now time.Time, in *diagnosis.Inputs, state *ack.State) {
	unstarted := state.UnstartedServices()
	if !m.unstarted.Update(now, in.HasMap && len(unstarted) > 0) {
		return
	}
	for _, service := range unstarted {
		in.UnstartedServices = append(in.UnstartedServices, diagnosis.UnstartedService{Service: service.Name, Shards: service.Shards, IsRouted: leaderloop.ConfiguresService(state, service.Name)})
	}
}

// addOwnMembership adds whether this node lacks a lease, or is not in the proposed map. Neither is a problem for a
// node that must own no shards.
func (m *Monitor) addOwnMembership(now time.Time, in *diagnosis.Inputs, state *ack.State) {
	mayOwnShards := in.HasMap && !in.Gateway && !in.Stopping
	in.NoLeaseFor = m.noLease.Update(now, mayOwnShards && !m.options.Router.HasLease())
	in.NotInMap = m.missingInMap.Update(now, mayOwnShards && !m.options.View.IsDrained() && !state.Proposed().IsMember(m.options.Self))
}

// addJoinInputs adds the reason why this node does not belong to a cluster yet, or cannot join the other nodes.
func (m *Monitor) addJoinInputs(now time.Time, in *diagnosis.Inputs) {
	status, isBootstrapped := m.bootstrapStatus()
	if m.notBootstrapped.Update(now, !isBootstrapped) && !isBootstrapped {
		in.Bootstrap = &status
	}
	cannotJoin := m.options.Gossip.NoOtherNodeReason() != nil
	if m.joinFailing.Update(now, cannotJoin && m.options.Joins) && cannotJoin {
		in.JoinFailure = &diagnosis.JoinFailure{Attempts: m.joinAttempts()}
	}
	in.JoinConflict = m.joinConflict()
}

// countVoters returns the number of voters in nodes.
func countVoters(nodes []diagnosis.Node) int {
	voters := 0
	for _, node := range nodes {
		if node.Voter {
			voters++
		}
	}
	return voters
}

// clearReplicatedInputs clears the fields of nodes that are valid only if the log has been applied to its end.
func clearReplicatedInputs(nodes []diagnosis.Node) {
	for i := range nodes {
		nodes[i].Drained, nodes[i].Cordoned, nodes[i].MarkedFailed, nodes[i].Restarting, nodes[i].Grace, nodes[i].Unreachable = false, false, false, false, 0, false
	}
}

// hasOwner reports whether a present node may own shards. The leader counts as present even if gossip
// does not contain it yet, because gossip is late when packets are lost.
func hasOwner(nodes []diagnosis.Node, leader string) bool {
	return slices.ContainsFunc(nodes, func(node diagnosis.Node) bool { return !node.Gateway && (node.Alive || node.ID == leader) })
}

// knownNodes returns the inputs about each node, sorted by ID. A condition of a node counts only after it has
// lasted for some time, see nodeDebouncers.
func (m *Monitor) knownNodes(now time.Time, state *ack.State, leader string) []diagnosis.Node {
	observed := m.observedNodes(state, leader)
	maps.DeleteFunc(m.nodes, func(id string, _ *nodeDebouncers) bool { return observed[id] == nil })
	nodes := make([]diagnosis.Node, 0, len(observed))
	for id, node := range observed {
		debouncers := m.nodes[id]
		if debouncers == nil {
			debouncers = m.newNodeDebouncers(now)
			m.nodes[id] = debouncers
		}
		// A state in the report of the leader was observed at the time of the query. It must not count as lasting
		// beyond that time, although diagnose runs more often than the leader is queried.
		observedAt := now
		if id != string(m.options.Self) && m.lastReport.covers(id) {
			observedAt = m.lastReport.viewsAt
		}
		debouncers.smooth(now, observedAt, node)
		nodes = append(nodes, *node)
	}
	slices.SortFunc(nodes, func(a, b diagnosis.Node) int { return cmp.Compare(a.ID, b.ID) })
	return nodes
}

// newNodeDebouncers returns the debouncers of a new node. A node counts as present at first: this node has just
// started, or has just learned of the other node, so the heartbeats of that node may not have arrived yet.
func (m *Monitor) newNodeDebouncers(now time.Time) *nodeDebouncers {
	d := &nodeDebouncers{
		lost:      diagnosis.Debouncer{OnDelay: m.options.View.Timing().DeadAfter + takeoverMargin},
		unhealthy: diagnosis.Debouncer{OnDelay: unhealthyAfter},
		lagging:   diagnosis.Debouncer{OnDelay: unhealthyAfter},
	}
	d.present.Update(now, true)
	d.present.OnDelay, d.present.OffDelay = presenceAfter, presenceAfter
	return d
}

// smooth replaces the conditions of a node, which were observed at observedAt, by those that have lasted long
// enough to count.
func (d *nodeDebouncers) smooth(now, observedAt time.Time, node *diagnosis.Node) {
	node.Alive = d.present.Update(observedAt, node.Alive)
	node.Lost = d.lost.Update(now, !node.Alive && !node.Restarting && node.Shards > 0)
	node.Lagging = d.lagging.Update(observedAt, node.Lagging)
	isFailing := node.App == diagnosis.AppFailing
	node.UnhealthyInstances = d.smoothInstances(observedAt, node.UnhealthyInstances)
	if hasFailedLongEnough := d.unhealthy.Update(observedAt, isFailing); isFailing && !hasFailedLongEnough {
		node.App = diagnosis.AppUnknown
	}
}

// smoothInstances returns those of the unhealthy app instances that have been unhealthy for long enough to
// count.
func (d *nodeDebouncers) smoothInstances(observedAt time.Time, unhealthy []diagnosis.Instance) []diagnosis.Instance {
	isUnhealthy := func(number int) bool {
		return slices.ContainsFunc(unhealthy, func(instance diagnosis.Instance) bool { return instance.Number == number })
	}
	for _, instance := range unhealthy {
		if d.instances[instance.Number] == nil {
			if d.instances == nil {
				d.instances = map[int]*diagnosis.Debouncer{}
			}
			d.instances[instance.Number] = &diagnosis.Debouncer{OnDelay: unhealthyAfter}
		}
	}
	counts := map[int]bool{}
	for number, debouncer := range d.instances {
		counts[number] = debouncer.Update(observedAt, isUnhealthy(number))
	}
	return slices.DeleteFunc(unhealthy, func(instance diagnosis.Instance) bool { return !counts[instance.Number] })
}

// observedNodes returns the current, unsmoothed inputs about each node, by ID. Later sources override earlier
// ones: first the map and gossip, then the probes, then the leader's view.
func (m *Monitor) observedNodes(state *ack.State, leader string) map[string]*diagnosis.Node {
	nodes := map[string]*diagnosis.Node{}
	entry := func(id string) *diagnosis.Node {
		if nodes[id] == nil {
			nodes[id] = m.newNode(state, id)
		}
		return nodes[id]
	}
	voters, nonVoters := m.options.Servers()
	for _, server := range voters {
		entry(consensus.NodeOf(server)).Voter = true
	}
	for _, server := range nonVoters {
		entry(consensus.NodeOf(server))
	}
	for _, member := range state.Committed().Members() {
		entry(string(member.ID))
	}
	for _, member := range m.options.View.Members() {
		hasLeftUnknown := member.Status == gossip.Left && nodes[member.ID] == nil
		if !member.Node || hasLeftUnknown {
			continue
		}
		node := entry(member.ID)
		node.Gateway, node.Stopping = member.Tags.Role == gossip.RoleGateway, member.Status == gossip.Leaving
		node.Alive = member.Status == gossip.Alive || member.Status == gossip.Leaving
	}
	m.addProbeResults(nodes, leader)
	for _, view := range m.lastReport.Views {
		if node := nodes[string(view.Node)]; node != nil {
			addLeaderView(node, view, m.lastReport.epoch)
		}
	}
	m.addSelf(entry(string(m.options.Self)))
	return nodes
}

// newNode returns the inputs about a node that the replicated state contains.
func (m *Monitor) newNode(state *ack.State, node string) *diagnosis.Node {
	id, policy := shardmap.NodeID(node), m.options.State().Policy()
	result := &diagnosis.Node{
		ID: node, Shards: state.Committed().ShardCount(id), StaleReturns: state.StaleReturns(id),
		Drained: policy.IsDraining(id), Cordoned: policy.Cordoned[id], MarkedFailed: policy.MarkedFailed[id],
	}
	if restart, ok := state.Restart(id); ok && !restart.Ended {
		result.Restarting, result.Grace = true, restart.Grace
	}
	drop, _ := state.Drop(id)
	result.Unreachable = drop.InForce && drop.Cause == ack.CauseUnreachable
	return result
}

// addProbeResults adds which nodes the last probes have reached. If there is a leader, it deletes these results,
// because the leader's view is newer.
func (m *Monitor) addProbeResults(nodes map[string]*diagnosis.Node, leader string) {
	m.probes.Lock()
	defer m.probes.Unlock()
	if leader != "" {
		clear(m.probes.reached)
		return
	}
	for id, isReached := range m.probes.reached {
		if node := nodes[id]; node != nil {
			node.Alive = isReached
		}
	}
}

// addLeaderView adds the leader's view of a node.
func addLeaderView(node *diagnosis.Node, view leader.MemberView, committed shardmap.Epoch) {
	hb := view.Heartbeat
	hasHeartbeat := view.SinceHeartbeat >= 0
	node.Alive = leaderloop.IsAlive(view)
	if hasHeartbeat && view.SinceHeartbeat < ackagent.UnreleasedMoveWindow { // also a node that has stopped
		node.UnreleasedMoves = int(hb.UnreleasedMoves)
	}
	if !node.Alive {
		return
	}
	for _, reporter := range view.Reporters {
		node.Reporters = append(node.Reporters, string(reporter))
	}
	node.Gateway = hb.Gateway
	node.WaitingShards, node.ShardsMovedAway, node.CannotAcquire = int(hb.WaitingShards), len(hb.UnacquiredShards), hb.AcquiresNone
	node.Stopping = node.Stopping || hb.Leaving
	node.AppliedEpoch = uint64(hb.Applied)
	node.Lagging = hb.Applied < committed // the node has not applied the committed map yet
	if node.Gateway {
		return
	}
	node.App = diagnosis.AppHealthy
	if hb.Unhealthy {
		node.App = diagnosis.AppFailing
	}
	for instance := range shardmap.Instance(shardmap.MaxInstances) {
		if hb.UnhealthyInstances.Has(instance) {
			node.UnhealthyInstances = append(node.UnhealthyInstances, diagnosis.Instance{Number: instance.Number()})
		}
	}
	node.KeepsShards, node.NoShardsFor, node.FailuresInRow = view.KeptUnhealthy, view.HoldTime, int(hb.App.FlapCount)
}

// addSelf adds the inputs about this node.
func (m *Monitor) addSelf(node *diagnosis.Node) {
	node.Alive, node.Gateway, node.Lagging = true, m.options.Gateway, false
	if m.options.Gateway {
		node.App = diagnosis.AppUnknown
		return
	}
	node.UnreleasedMoves, node.UnreleasedReason = m.options.Agent.RecentlyUnreleased()
	node.UnmovedShards, node.UnmovedReason = m.options.Agent.KeptShards()
	node.App = diagnosis.AppHealthy
	if m.options.Health != nil && !m.options.Health.Healthy() {
		node.App, node.HealthError = diagnosis.AppFailing, m.options.Health.LastError()
	}
	node.UnhealthyInstances = m.unhealthyInstances()
}

// unhealthyInstances returns the unhealthy app instances of this node. The result is empty if the node has
// one instance.
func (m *Monitor) unhealthyInstances() (unhealthy []diagnosis.Instance) {
	if m.options.Health == nil || m.options.Health.Len() < 2 {
		return nil
	}
	for i := range m.options.Health.Len() {
		if checker := m.options.Health.At(i); checker != nil && !checker.Healthy() {
			unhealthy = append(unhealthy, diagnosis.Instance{Number: shardmap.Instance(i).Number(), HealthError: checker.LastError()})
		}
	}
	return unhealthy
}

// addAcquisition adds the shards that the app has not acquired yet.
func (m *Monitor) addAcquisition(now time.Time, in *diagnosis.Inputs) {
	if !m.options.Agent.HasHooks() {
		return
	}
	m.updateAcquiringShards()
	if failedShards, reason := m.options.Agent.AcquireFailures(); failedShards != "" {
		in.Acquiring, in.AcquireError = failedShards, reason
		return
	}
	isAcquiring := len(m.acquiringShards) > 0
	if isSlow := m.acquiring.Update(now, isAcquiring); isSlow && isAcquiring {
		in.Acquiring = m.options.Router.State().FormatShards(m.acquiringShards)
	}
}

// updateAcquiringShards updates acquiringShards if the routing table has changed.
func (m *Monitor) updateAcquiringShards() {
	table := m.options.Router.Table()
	if table.Generation() == m.acquiringGeneration {
		return
	}
	m.acquiringGeneration, m.acquiringShards = table.Generation(), nil
	for i := range table.Shards() {
		shard := shardmap.Shard(i)
		if r := table.Route(shard); r.Kind == route.Queued && r.Reason == route.ReasonAcquiring {
			m.acquiringShards = append(m.acquiringShards, shard)
		}
	}
}

// addLocalInputs adds the inputs about the machine and the process of this node.
func (m *Monitor) addLocalInputs(now time.Time, in *diagnosis.Inputs) {
	in.DuplicateAddr = m.options.Agent.DuplicateAddr()
	if length, sinceEnd := m.options.Agent.LastPause(); sinceEnd < pauseShownFor {
		in.PausedFor = length
	}
	if now.Sub(m.appSilenceRead) >= time.Second {
		m.appSilenceRead, m.appSilence = now, m.options.Proxy.AppSilence()
	}
	in.AppSilentFor, in.AppPendingRequests, in.AppUnreadRequests = m.appSilence.SilentFor, m.appSilence.WaitingRequests, m.appSilence.UnreadRequests
	in.DiskStalled = m.options.IsDiskStalled()
	if slowest := m.options.Stores.SlowestWrite(); slowest > in.Lease/2 {
		in.SlowestWrite = slowest
	}
	queued := m.options.Queue.Stats()
	in.QueueWaiting = queued.Waiting
	in.QueueRefused = int(m.refusedRequests.Update(now, queued.RefusedFull+queued.RefusedShardLimit))
	if m.options.FailingProcesses != nil {
		in.FailingProcesses, in.ProcessError = m.options.FailingProcesses()
	}
	if m.options.Webhook != nil {
		status := m.options.Webhook()
		in.WebhookReceiver, in.WebhookFailingFor, in.WebhookError = status.Receiver, status.FailingFor, status.Error
		in.WebhookLost = int(m.lostEvents.Update(now, status.Lost))
	}
	in.GossipTagBytes, in.MaxGossipTagBytes = m.options.Gossip.TagsSize()
	if m.options.Exposed != nil {
		in.Exposures, in.Certificates = m.options.Exposed()
	}
}

// addReplicatedInputs adds the requests of operators, and the report of the leader.
func (m *Monitor) addReplicatedInputs(in *diagnosis.Inputs) {
	requested := m.options.API.Policy()
	in.PausedMovesFor = requested.Pause
	if requested.Role != "" && !m.options.View.HasRole(requested.Role) {
		in.MissingRole = requested.Role
	}
	in.ServiceConflicts = m.options.ServiceConflicts()
	in.Quarantined = len(requested.Quarantined)
	for _, key := range requested.Quarantined {
		if !key.Known {
			in.StaleQuarantines++
		}
	}
	if upgrade := m.lastReport.Upgrade; upgrade != nil && upgrade.Behind != "" {
		in.FormatVersion, in.NextFormatVersion, in.UpgradeBlocker = int(upgrade.CurrentVersion), int(upgrade.Next), upgrade.Behind
	}
	in.Differences = m.lastReport.DifferingSettings
	if err := m.options.Router.KeysError(); err != nil {
		in.KeyConfigError = err.Error()
	}
	policy := m.options.State().Policy()
	for _, suspect := range m.lastReport.Suspects {
		if !leaderloop.IsQuarantined(policy, suspect.Key.Shard, suspect.Key.Hash) {
			service, shard := m.options.State().NumberInService(suspect.Key.Shard)
			in.PoisonSuspects = append(in.PoisonSuspects, diagnosis.Poison{Service: service, Shard: uint32(shard), Hash: suspect.Key.Hash, Nodes: suspect.Nodes})
		}
	}
}
