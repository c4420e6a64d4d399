package findings

import (
	"cmp"
	"slices"
	"time"

	"shardway/ack"
	ackagent "shardway/ack/agent"
	"shardway/ack/leader"
	"shardway/diagnosis"
	"shardway/node/consensus"
	"shardway/node/gossip"
	"shardway/node/leaderloop"
	"shardway/proxy/route"
	"shardway/shardmap"
)

const (
	// presenceAfter is the time after which the presence or absence of a node counts.
	presenceAfter = time.Second
	// unhealthyAfter is the time after which an unhealthy app or a log that is behind counts.
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
func (m *Monitor) inputs(now time.Time) diagnosis.Inputs {
	state := m.o.Router.State()
	committed := state.Committed()
	in := diagnosis.Inputs{
		Self: string(m.o.Self), Gateway: m.o.Gateway, Now: now,
		Leader: m.o.View.Leader(), LeaderUnknown: m.o.View.Raft.IsIsolated(), Lease: m.o.View.Timing().Lease,
		Shards: m.o.Shards, Epoch: uint64(committed.Epoch()), HasMap: committed.Epoch() != 0,
		Stopping: m.o.Agent.IsLeaving() || m.o.IsStopping(),
	}
	upToDate := m.upToDate.Update(now, m.o.Agent.IsUpToDate())
	in.NoLeaderFor = m.noLeader.Update(now, in.Leader == "")
	in.NoMapFor = m.noMap.Update(now, in.Leader != "" && !in.HasMap)
	in.NoLeaseFor = m.noLease.Update(now, in.HasMap && !in.Gateway && !in.Stopping && !m.o.Router.HasLease())
	in.Nodes = m.knownNodes(now, state, in.Leader)
	if !upToDate {
		clearReplicatedInputs(in.Nodes)
	}
	if m.orphaned.Update(now, upToDate && in.HasMap && committed.OrphanCount() > 0) {
		in.Orphaned = committed.OrphanCount()
	}
	in.NotInMap = m.missingInMap.Update(now, in.HasMap && !in.Gateway && !in.Stopping && !m.o.View.IsDrained() && !state.Proposed().IsMember(m.o.Self))
	noOwner := !hasOwner(in.Nodes, in.Leader)
	in.OnlyGateways = m.onlyGateways.Update(now, noOwner) && noOwner
	voters := len(slices.DeleteFunc(slices.Clone(in.Nodes), func(node diagnosis.Node) bool { return !node.Voter }))
	in.EvenVoters = m.evenVoters.Update(now, voters > 0 && voters%2 == 0)
	if status, bootstrapped := m.bootstrapStatus(); m.notBootstrapped.Update(now, !bootstrapped) && !bootstrapped {
		in.Bootstrap = &status
	}
	if err := m.o.Gossip.NoOtherNodeReason(); m.joinFailing.Update(now, err != nil && m.o.Joins) && err != nil {
		in.JoinFailure = &diagnosis.JoinFailure{Attempts: m.joinAttempts()}
	}
	in.JoinConflict = m.joinConflict()
	in.AddressChanges = m.o.AddressChanges()
	in.UnreachablePeerPorts = append(m.peerPort.problems(), m.lastReport.Unreachable...)
	m.addAcquisition(now, &in)
	m.addLocalInputs(now, &in)
	if upToDate {
		m.addReplicatedInputs(&in)
	}
	return in
}

// clearReplicatedInputs clears the fields of nodes that are valid only if the log has been applied to its end.
func clearReplicatedInputs(nodes []diagnosis.Node) {
	for i := range nodes {
		nodes[i].Drained, nodes[i].Cordoned, nodes[i].Restarting, nodes[i].Grace = false, false, false, 0
	}
}

// hasOwner reports whether a present node may own shards. The leader counts as present even if gossip
// does not contain it yet, because gossip is late when packets are lost.
func hasOwner(nodes []diagnosis.Node, leader string) bool {
	return slices.ContainsFunc(nodes, func(node diagnosis.Node) bool { return !node.Gateway && (node.Alive || node.ID == leader) })
}

// knownNodes returns the inputs about each node, sorted by ID.
func (m *Monitor) knownNodes(now time.Time, s *ack.State, leader string) []diagnosis.Node {
	raw := m.rawNodes(s, leader)
	for id := range m.nodes {
		if _, known := raw[id]; !known {
			delete(m.nodes, id)
		}
	}
	out := make([]diagnosis.Node, 0, len(raw))
	for id, node := range raw {
		d := m.nodes[id]
		if d == nil {
			// A node counts as present at first. This node has just started, or has just learned of the
			// other node, so the heartbeats of that node may not have arrived yet.
			d = &nodeDebouncers{
				lost: diagnosis.Debouncer{OnDelay: m.o.View.Timing().DeadAfter + takeoverMargin}, unhealthy: diagnosis.Debouncer{OnDelay: unhealthyAfter}, lagging: diagnosis.Debouncer{OnDelay: unhealthyAfter},
			}
			d.present.Update(now, true)
			d.present.OnDelay, d.present.OffDelay = presenceAfter, presenceAfter
			m.nodes[id] = d
		}
		// A state in the report of the leader was observed at the time of the query. It must not count as
		// lasting longer than that, although diagnose runs more often than the leader is queried.
		observedAt := now
		if id != string(m.o.Self) && m.lastReport.covers(id) {
			observedAt = m.lastReport.viewsAt
		}
		node.Alive = d.present.Update(observedAt, node.Alive)
		node.Lost = d.lost.Update(now, !node.Alive && !node.Restarting && node.Shards > 0)
		if unhealthy := d.unhealthy.Update(observedAt, node.App == diagnosis.AppFailing); node.App == diagnosis.AppFailing && !unhealthy {
			node.App = diagnosis.AppUnknown
		}
		node.Lagging = d.lagging.Update(observedAt, node.Lagging)
		out = append(out, *node)
	}
	slices.SortFunc(out, func(a, b diagnosis.Node) int { return cmp.Compare(a.ID, b.ID) })
	return out
}

// rawNodes returns the present, unsmoothed inputs about each node, by ID.
func (m *Monitor) rawNodes(s *ack.State, leader string) map[string]*diagnosis.Node {
	c, policy := s.Committed(), m.o.State().Policy()
	all := map[string]*diagnosis.Node{}
	entry := func(id string) *diagnosis.Node {
		node := all[id]
		if node == nil {
			key := shardmap.NodeID(id)
			node = &diagnosis.Node{ID: id, Shards: c.ShardCount(key), Drained: policy.IsDraining(key), Cordoned: policy.Cordoned[key], StaleReturns: s.StaleReturns(key)}
			if restart, ok := s.Restart(key); ok && !restart.Ended {
				node.Restarting, node.Grace = true, restart.Grace
			}
			all[id] = node
		}
		return node
	}
	voters, others := m.o.View.Servers()
	for _, server := range voters {
		entry(consensus.NodeOf(server)).Voter = true
	}
	for _, server := range others {
		entry(consensus.NodeOf(server))
	}
	for _, member := range c.Members() {
		entry(string(member.ID))
	}
	for _, member := range m.o.View.Members() {
		if !member.Node || member.Status == gossip.Left && all[member.ID] == nil {
			continue
		}
		node := entry(member.ID)
		node.Gateway, node.Stopping = member.Tags.Role == gossip.RoleGateway, member.Status == gossip.Leaving
		node.Alive = member.Status == gossip.Alive || member.Status == gossip.Leaving
	}
	m.probes.Lock()
	for id, reached := range m.probes.reached {
		if leader != "" {
			delete(m.probes.reached, id)
		} else if node := all[id]; node != nil {
			node.Alive = reached
		}
	}
	m.probes.Unlock()
	for _, view := range m.lastReport.Views {
		if node := all[string(view.Node)]; node != nil {
			addLeaderView(node, view, m.lastReport.epoch)
		}
	}
	m.addSelf(entry(string(m.o.Self)))
	return all
}

// addLeaderView adds the leader's view of a node.
func addLeaderView(node *diagnosis.Node, view leader.MemberView, committed shardmap.Epoch) {
	node.Alive = view.SinceHeartbeat >= 0 && !view.Silent && !view.Crashed
	if view.SinceHeartbeat >= 0 && view.SinceHeartbeat < ackagent.UnreleasedMoveWindow { // also a node that has stopped
		node.UnreleasedMoves = int(view.Heartbeat.UnreleasedMoves)
	}
	if !node.Alive {
		return
	}
	node.Gateway = view.Heartbeat.Gateway
	node.WaitingShards, node.MovedElsewhere, node.AcquiresNone = int(view.Heartbeat.WaitingShards), len(view.Heartbeat.UnacquiredShards), view.Heartbeat.AcquiresNone
	node.Stopping = node.Stopping || view.Heartbeat.Leaving
	node.AppliedEpoch = uint64(view.Heartbeat.Applied)
	node.Lagging = view.Heartbeat.Applied < committed // the node has not applied the committed map yet
	if !node.Gateway {
		node.App = diagnosis.AppHealthy
		if view.Heartbeat.Unhealthy {
			node.App = diagnosis.AppFailing
		}
		node.KeepsShards, node.NoShardsFor, node.FailuresInRow = view.KeptUnhealthy, view.HoldTime, int(view.Heartbeat.App.FlapCount)
	}
}

// addSelf adds the inputs about this node.
func (m *Monitor) addSelf(node *diagnosis.Node) {
	node.Alive, node.Gateway, node.Lagging = true, m.o.Gateway, false
	if m.o.Gateway {
		node.App = diagnosis.AppUnknown
		return
	}
	node.UnreleasedMoves, node.UnreleasedReason = m.o.Agent.RecentlyUnreleased()
	node.UnmovedShards, node.UnmovedReason = m.o.Agent.KeptShards()
	node.App = diagnosis.AppHealthy
	if m.o.Health != nil && !m.o.Health.Healthy() {
		node.App, node.HealthError = diagnosis.AppFailing, m.o.Health.LastError()
	}
}

// addAcquisition adds the shards that the app has not acquired yet.
func (m *Monitor) addAcquisition(now time.Time, in *diagnosis.Inputs) {
	if !m.o.Agent.HasHooks() {
		return
	}
	if t := m.o.Router.Table(); t.Generation() != m.acquiringGeneration {
		m.acquiringGeneration, m.acquiringShards = t.Generation(), nil
		for i := range m.o.Shards {
			if r := t.Route(shardmap.Shard(i)); r.Kind == route.Held && r.Reason == route.ReasonAcquiring {
				m.acquiringShards = append(m.acquiringShards, shardmap.Shard(i))
			}
		}
	}
	if shards, why := m.o.Agent.AcquireFailures(); shards != "" {
		in.Acquiring, in.AcquireError = shards, why
	} else if m.acquiring.Update(now, len(m.acquiringShards) > 0) && len(m.acquiringShards) > 0 {
		in.Acquiring = shardmap.FormatShards(m.acquiringShards)
	}
}

// addLocalInputs adds the inputs about the machine and the process of this node.
func (m *Monitor) addLocalInputs(now time.Time, in *diagnosis.Inputs) {
	in.DuplicateAddr = m.o.Agent.DuplicateAddr()
	if length, sinceEnd := m.o.Agent.LastPause(); sinceEnd < pauseShownFor {
		in.PausedFor = length
	}
	if now.Sub(m.appSilenceRead) >= time.Second {
		m.appSilenceRead, m.appSilence = now, m.o.Proxy.AppSilence()
	}
	in.AppSilentFor, in.AppPendingRequests, in.AppUnreadRequests = m.appSilence.SilentFor, m.appSilence.WaitingRequests, m.appSilence.UnreadRequests
	in.DiskStalled = m.o.IsDiskStalled()
	if took := m.o.Stores.SlowestWrite(); took > in.Lease/2 {
		in.SlowestWrite = took
	}
	waiting := m.o.Queue.Stats()
	in.QueueRefused, in.QueueWaiting = int(m.refusedRequests.Update(now, waiting.RefusedFull+waiting.RefusedShardLimit)), waiting.Waiting
	in.GossipTagBytes, in.MaxGossipTagBytes = m.o.Gossip.TagsSize()
	if m.o.Exposed != nil {
		in.Exposures, in.Certificates = m.o.Exposed()
	}
}

// addReplicatedInputs adds the requests of operators, and the report of the leader.
func (m *Monitor) addReplicatedInputs(in *diagnosis.Inputs) {
	p := m.o.API.Policy()
	in.PausedMovesFor = p.Pause
	in.Quarantined = len(p.Quarantined)
	for _, key := range p.Quarantined {
		if !key.Known {
			in.StaleQuarantines++
		}
	}
	if upgrade := m.lastReport.Upgrade; upgrade != nil && upgrade.Behind != "" {
		in.FormatVersion, in.NextFormatVersion, in.UpgradeBlocker = int(upgrade.InForce), int(upgrade.Next), upgrade.Behind
	}
	in.Differences = m.lastReport.DifferingSettings
	if err := m.o.Router.KeysError(); err != nil {
		in.KeyConfigError = err.Error()
	}
	policy := m.o.State().Policy()
	for _, suspect := range m.lastReport.Suspects {
		if !leaderloop.IsQuarantined(policy, suspect.Key.Shard, suspect.Key.Hash) {
			in.PoisonSuspects = append(in.PoisonSuspects, diagnosis.Poison{Shard: uint32(suspect.Key.Shard), Hash: suspect.Key.Hash, Nodes: suspect.Nodes})
		}
	}
}
