package node

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
	// steadyHere is the time after which the presence or absence of a node counts.
	steadyHere = time.Second
	// steadySick is the time after which an unhealthy app or a log that is behind counts.
	steadySick = 2 * time.Second
	// goneMargin is the time after dead-after within which the shards of a failed node must have new
	// owners.
	goneMargin = 3 * time.Second
	// currentAfter is how long this node must have had the newest proposed map of the leader before
	// findings use the state of its log. Until then, the state may be old, and contain drains, cordons,
	// pauses and orphans that have ended.
	currentAfter = time.Second
	// stoodShown is how long a finding reports a pause of the process after the pause has ended.
	stoodShown = time.Minute
)

// inputs collects the inputs of the findings.
func (w *watch) inputs(now time.Time) diagnosis.Inputs {
	n := w.n
	s := n.router.State()
	c := s.Committed()
	in := diagnosis.Inputs{
		Self: string(n.self), Gateway: n.o.Gateway, Now: now,
		Leader: n.view.Leader(), LeaderUnknown: n.raft.IsIsolated(), Lease: n.view.Timing().Lease,
		Shards: n.o.Shards, Epoch: uint64(c.Epoch()), HasMap: c.Epoch() != 0,
		Stopping: n.agent.leaving.Load() || n.stopping.Load(),
	}
	current := w.current.Update(now, n.agent.upToDate.Load())
	in.NoLeaderFor = w.leaderless.Update(now, in.Leader == "")
	in.NoMapFor = w.unmapped.Update(now, in.Leader != "" && !in.HasMap)
	in.NoLeaseFor = w.unleased.Update(now, in.HasMap && !in.Gateway && !in.Stopping && !n.router.HasLease())
	in.Nodes = w.knownNodes(now, s, in.Leader)
	if !current {
		forgetAsked(in.Nodes)
	}
	if w.orphaned.Update(now, current && in.HasMap && s.Committed().Orphans() > 0) {
		in.Orphaned = s.Committed().Orphans()
	}
	in.NotInMap = w.joins.Update(now, in.HasMap && !in.Gateway && !in.Stopping && !n.view.IsDrained() && !s.Proposed().Has(n.self))
	owners := hasOwner(in.Nodes, in.Leader)
	in.OnlyGateways = w.ownerless.Update(now, !owners) && !owners
	voters := len(slices.DeleteFunc(slices.Clone(in.Nodes), func(x diagnosis.Node) bool { return !x.Voter }))
	in.EvenVoters = w.even.Update(now, voters > 0 && voters%2 == 0)
	if u, born := n.bootstrapStatus(); w.unstarted.Update(now, !born) && !born {
		in.Bootstrap = &u
	}
	if err := n.gossip.Alone(); w.alone.Update(now, err != nil && len(n.o.Join) > 0) && err != nil {
		in.JoinFailure = &diagnosis.JoinFailure{Attempts: n.joinsTried()}
	}
	in.JoinConflict = n.joinConflict()
	in.AddressChanges = n.moved.list()
	in.UnreachablePeerPorts = append(w.peers.problems(), w.lastReport.unreachable...)
	w.acquisition(now, &in)
	w.ownMachine(now, &in)
	if current {
		w.asked(&in)
	}
	return in
}

// forgetAsked clears the fields of nodes that are valid only if the log has been applied to its end.
func forgetAsked(nodes []diagnosis.Node) {
	for i := range nodes {
		nodes[i].Drained, nodes[i].Cordoned, nodes[i].Restarting, nodes[i].Grace = false, false, false, 0
	}
}

// hasOwner reports whether a present node may own shards. The leader counts as present even if gossip
// does not contain it yet, because gossip is late when packets are lost.
func hasOwner(nodes []diagnosis.Node, leader string) bool {
	return slices.ContainsFunc(nodes, func(x diagnosis.Node) bool { return !x.Gateway && (x.Alive || x.ID == leader) })
}

// knownNodes returns the inputs about each node, sorted by ID.
func (w *watch) knownNodes(now time.Time, s *ack.State, leader string) []diagnosis.Node {
	n := w.n
	raw := w.rawNodes(s, leader)
	for id := range w.nodes {
		if _, known := raw[id]; !known {
			delete(w.nodes, id)
		}
	}
	out := make([]diagnosis.Node, 0, len(raw))
	for id, x := range raw {
		st := w.nodes[id]
		if st == nil {
			// A node counts as present at first. This node has just started, or has just learned of the
			// other node, so the heartbeats of that node may not have arrived yet.
			st = &nodeSmoothers{
				gone: diagnosis.Debouncer{On: n.view.Timing().DeadAfter + goneMargin}, sick: diagnosis.Debouncer{On: steadySick}, lags: diagnosis.Debouncer{On: steadySick},
			}
			st.present.Update(now, true)
			st.present.On, st.present.Off = steadyHere, steadyHere
			w.nodes[id] = st
		}
		// A state in the report of the leader was observed at the time of the query. It must not count as
		// lasting longer than that, although diagnose runs more often than the leader is queried.
		seen := now
		if id != string(n.self) && w.lastReport.covers(id) {
			seen = w.lastReport.viewsAt
		}
		x.Alive = st.present.Update(seen, x.Alive)
		x.Lost = st.gone.Update(now, !x.Alive && !x.Restarting && x.Shards > 0)
		if sick := st.sick.Update(seen, x.App == diagnosis.AppFailing); x.App == diagnosis.AppFailing && !sick {
			x.App = diagnosis.AppUnknown
		}
		x.Lagging = st.lags.Update(seen, x.Lagging)
		out = append(out, *x)
	}
	slices.SortFunc(out, func(a, b diagnosis.Node) int { return cmp.Compare(a.ID, b.ID) })
	return out
}

// rawNodes returns the present, unsmoothed inputs about each node, by ID.
func (w *watch) rawNodes(s *ack.State, leader string) map[string]*diagnosis.Node {
	n := w.n
	c, policy := s.Committed(), n.fsm.state.Load().Policy()
	all := map[string]*diagnosis.Node{}
	of := func(id string) *diagnosis.Node {
		x := all[id]
		if x == nil {
			node := shardmap.NodeID(id)
			x = &diagnosis.Node{ID: id, Shards: c.Count(node), Drained: policy.IsDraining(node), Cordoned: policy.Cordoned[node], StaleReturns: s.StaleReturns(node)}
			if a, ok := s.Restart(node); ok && !a.Ended {
				x.Restarting, x.Grace = true, a.Grace
			}
			all[id] = x
		}
		return x
	}
	voters, others := n.view.Servers()
	for _, server := range voters {
		of(consensus.NodeOf(server)).Voter = true
	}
	for _, server := range others {
		of(consensus.NodeOf(server))
	}
	for _, m := range c.Members() {
		of(string(m.ID))
	}
	for _, m := range n.view.Members() {
		if !m.Node || m.Status == gossip.Left && all[m.ID] == nil {
			continue
		}
		x := of(m.ID)
		x.Gateway, x.Alive, x.Stopping = m.Tags.Role == gossip.RoleGateway, m.Status == gossip.Alive || m.Status == gossip.Leaving, m.Status == gossip.Leaving
	}
	w.probes.Lock()
	for id, reached := range w.probes.reached {
		if leader != "" {
			delete(w.probes.reached, id)
		} else if x := all[id]; x != nil {
			x.Alive = reached
		}
	}
	w.probes.Unlock()
	for _, v := range w.lastReport.views {
		if x := all[string(v.Node)]; x != nil {
			addLeaderView(x, v, w.lastReport.epoch)
		}
	}
	w.self(of(string(n.self)))
	return all
}

// addLeaderView adds the leader's view of a node.
func addLeaderView(x *diagnosis.Node, v leader.MemberView, committed shardmap.Epoch) {
	x.Alive = v.SinceHeartbeat >= 0 && !v.Silent && !v.Crashed
	if v.SinceHeartbeat >= 0 && v.SinceHeartbeat < ackagent.UnreleasedMoveWindow { // also a node that has stopped
		x.NotReleased = int(v.Heartbeat.UnreleasedMoves)
	}
	if !x.Alive {
		return
	}
	x.Gateway = v.Heartbeat.Gateway
	x.NotAcquired, x.MovedElsewhere, x.AcquiresNone = int(v.Heartbeat.WaitingShards), len(v.Heartbeat.UnacquiredShards), v.Heartbeat.AcquiresNone
	x.Stopping = x.Stopping || v.Heartbeat.Leaving
	x.AppliedEpoch = uint64(v.Heartbeat.Applied)
	x.Lagging = v.Heartbeat.Applied < committed // the node has not applied the committed map yet
	if !x.Gateway {
		x.App = diagnosis.AppHealthy
		if v.Heartbeat.Unhealthy {
			x.App = diagnosis.AppFailing
		}
		x.KeepsShards, x.NoShardsFor, x.FailuresInRow = v.KeptUnhealthy, v.HoldTime, int(v.Heartbeat.App.FlapCount)
	}
}

// self adds the inputs about this node.
func (w *watch) self(x *diagnosis.Node) {
	n := w.n
	x.Alive, x.Gateway, x.Lagging = true, n.o.Gateway, false
	if n.o.Gateway {
		x.App = diagnosis.AppUnknown
		return
	}
	x.NotReleased, x.NotReleasedReason = n.agent.releases.lately(n.o.Clock.Precise())
	if k := n.agent.keptByDrain.Load(); k != nil {
		x.Unmoved, x.UnmovedReason = k.shards, k.why
	}
	x.App = diagnosis.AppHealthy
	if n.health != nil && !n.health.Healthy() {
		x.App, x.HealthError = diagnosis.AppFailing, n.health.LastError()
	}
}

// acquisition adds the shards that the app has not acquired yet.
func (w *watch) acquisition(now time.Time, in *diagnosis.Inputs) {
	n := w.n
	if n.agent.hooking == nil {
		return
	}
	if t := n.router.Table(); t.Generation() != w.acquiringGeneration {
		w.acquiringGeneration, w.acquiring = t.Generation(), nil
		for i := range n.o.Shards {
			if r := t.Route(shardmap.Shard(i)); r.Kind == route.Held && r.Reason == route.ReasonAcquiring {
				w.acquiring = append(w.acquiring, shardmap.Shard(i))
			}
		}
	}
	if shards, why := n.agent.acquireFailures.named(); shards != "" {
		in.Acquiring, in.NotAcquired = shards, why
	} else if w.acquires.Update(now, len(w.acquiring) > 0) && len(w.acquiring) > 0 {
		in.Acquiring = named(w.acquiring)
	}
}

// ownMachine adds the inputs about the machine and the process of this node.
func (w *watch) ownMachine(now time.Time, in *diagnosis.Inputs) {
	n := w.n
	if at := n.agent.duplicateAddr.Load(); at != nil {
		in.DuplicateAddr = *at
	}
	if st := n.agent.lastPause.Load(); st != nil && n.o.Clock.Precise()-st.at < stoodShown {
		in.PausedFor = st.lasted
	}
	if now.Sub(w.appSilenceRead) >= time.Second {
		w.appSilenceRead, w.appSilence = now, n.proxy.AppSilence()
	}
	in.AppSilent, in.AppWaiting, in.AppUnread = w.appSilence.For, w.appSilence.Requests, w.appSilence.Unread
	in.DiskStalled = n.hanging.Load()
	if took := n.stores.Slowest(); took > in.Lease/2 {
		in.SlowestWrite = took
	}
	room := n.queue.Stats()
	in.QueueRefused, in.QueueWaiting = int(w.refused.Update(now, room.RefusedFull+room.RefusedShardLimit)), room.Waiting
	in.TagsUsed, in.MaxTags = n.gossip.TagsUsed()
	if n.o.Exposed != nil {
		in.Insecure, in.Certificates = n.o.Exposed()
	}
}

// asked adds the requests of operators, and the report of the leader.
func (w *watch) asked(in *diagnosis.Inputs) {
	p := w.n.api.Policy()
	in.Pause = p.Pause
	in.Quarantined = len(p.Quarantined)
	for _, k := range p.Quarantined {
		if !k.Known {
			in.StaleQuarantines++
		}
	}
	if t := w.lastReport.level; t != nil && t.Behind != "" {
		in.FormatVersion, in.NextFormatVersion, in.UpgradeBlocker = int(t.InForce), int(t.Next), t.Behind
	}
	in.Differences = w.lastReport.differingSettings
	if err := w.n.router.KeysError(); err != nil {
		in.KeysUnreadable = err.Error()
	}
	policy := w.n.fsm.state.Load().Policy()
	for _, s := range w.lastReport.suspects {
		if !leaderloop.IsQuarantined(policy, s.Key.Shard, s.Key.Hash) {
			in.PoisonSuspects = append(in.PoisonSuspects, diagnosis.Poison{Shard: uint32(s.Key.Shard), Hash: s.Key.Hash, Nodes: s.Nodes})
		}
	}
}
