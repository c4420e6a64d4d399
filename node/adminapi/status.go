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
func MovingShards(s *ack.State) int {
	if !s.HasOpenProposal() {
		return 0
	}
	return len(shardmap.Diff(s.Committed(), s.Proposed()))
}

// state returns the state of this node, as docs/internals/protocol.md names it.
func (a *API) state() string { return a.stateBy(a.o.Router.State()) }

// stateBy returns the state of this node, computed from the replicated state s. With the same s, several
// parts of one status are consistent.
func (a *API) stateBy(s *ack.State) string {
	switch {
	case a.o.IsStopping():
		return "stopping"
	case a.o.Agent.IsLeaving():
		return "draining"
	case a.o.IsEnding():
		return "stopping" // a restart in place: the node keeps its shards, see hold
	case a.o.View.Leader() == "" && s.Committed().Epoch() == 0: // epoch 0 means that there is no shard map yet
		return "starting"
	case s.Committed().Epoch() != 0 && !s.Proposed().IsMember(a.o.Self) && a.isAppUnhealthy(): // excluded because of its app
		return "unhealthy"
	case s.Committed().Epoch() == 0 || !a.o.Gateway && !a.o.View.IsDrained() && !s.Proposed().IsMember(a.o.Self): // not in the map yet
		return "joining"
	case a.o.Gateway && a.o.View.Leader() == "", !a.o.Gateway && !a.o.Router.HasLease():
		return "electing"
	case a.o.View.IsDrained() && s.Committed().ShardCount(a.o.Self) > 0:
		return "draining"
	case a.o.View.IsDrained():
		return "drained"
	case s.HasOpenProposal():
		return "rebalancing"
	}
	return "operational"
}

// isAppUnhealthy reports whether the app fails its health checks. Before the first check it returns false.
func (a *API) isAppUnhealthy() bool {
	return a.o.Health != nil && a.o.Health.Checked() && !a.o.Health.Healthy()
}

// Ready returns nil if this node is ready for requests, otherwise an *api.UnreadyError with the reason. It
// uses the same lease check as the admission of requests (Router.HasLease).
func (a *API) Ready() error {
	s := a.o.Router.State()
	switch {
	case a.o.IsStopping() || a.o.Agent.IsLeaving():
		return a.unready("draining", diagnosis.Draining)
	case a.o.IsEnding():
		return a.unready("stopping")
	case s.Committed().Epoch() == 0:
		return a.unready("no shard map yet", diagnosis.NoPeers, diagnosis.Bootstrapping, diagnosis.NoQuorum, diagnosis.DiskStalled, diagnosis.NoHealthyApp, diagnosis.ClustersDiffer, diagnosis.PeerPortUnreachable, diagnosis.Joining, diagnosis.Unavailable)
	case a.o.Gateway:
		if _, lost := a.finding(diagnosis.NoQuorum, diagnosis.NoPeers); lost && a.o.View.Leader() == "" {
			return a.unready("there is no leader", diagnosis.NoQuorum, diagnosis.NoPeers)
		}
		return nil
	case !a.o.Router.HasLease():
		if a.o.Agent.HasDuplicate() {
			return a.unready("duplicate-node", diagnosis.DuplicateNode)
		}
		if a.o.View.Leader() == "" {
			return a.unready("no lease, because there is no leader", diagnosis.NoQuorum, diagnosis.DiskStalled, diagnosis.NoPeers, diagnosis.NoLease)
		}
		return a.unready("no lease", diagnosis.NoLease)
	case a.o.Health != nil && !a.o.Health.Healthy() && !a.servesUnhealthy():
		return a.unready("the app does not answer", diagnosis.NoHealthyApp, diagnosis.HealthPanic, diagnosis.AppUnhealthy)
	case !s.Committed().IsMember(a.o.Self) && !a.o.View.IsDrained():
		return a.unready("joining: not in the shard map yet", diagnosis.Joining)
	}
	return nil
}

// servesUnhealthy reports whether this node serves its shards although its app is unhealthy: the leader
// lets the node keep them because most apps are unhealthy, and the app still accepts connections.
func (a *API) servesUnhealthy() bool {
	if a.o.Health.Report().Refused {
		return false
	}
	for _, x := range a.o.Findings().Inputs.Nodes {
		if x.ID == string(a.o.Self) {
			return x.KeepsShards
		}
	}
	return false
}

// unready returns the error of Ready. brief is the reason in short. The details come from the finding with
// the first of codes that is present, if there is one.
func (a *API) unready(brief string, codes ...diagnosis.Code) error {
	u := &api.UnreadyError{Brief: brief}
	if f, ok := a.finding(codes...); ok {
		u.Why = f.String()
	}
	return u
}

// Status returns this node's view of itself and of the cluster.
func (a *API) Status() api.Status {
	s := a.o.Router.State()
	cluster, _ := a.o.Dir.Cluster()
	room := a.o.Queue.Stats()
	role := "follower"
	switch {
	case a.o.Leader.Leadership() != nil:
		role = "leader"
	case a.o.Gateway:
		role = "gateway"
	case a.o.View.Raft.IsCandidate():
		role = "candidate"
	}
	var timing *api.TimingState
	if known := a.o.View.State(); known.Bootstrapped() {
		t := leaderloop.TimingState(known)
		timing = &t
	}
	in, findings := a.updatedFindings(s)
	views := a.o.Leader.Views(context.Background())
	return api.Status{
		Node: string(a.o.Self), Boot: a.o.Dir.Boot(), Cluster: cluster, Version: a.o.Version,
		State: a.stateBy(s), Role: role, Leader: a.o.View.Leader(), Term: a.o.View.Raft.Term(),
		Epoch: uint64(s.Committed().Epoch()), Proposed: uint64(s.Proposed().Epoch()),
		LeaseMS: leaseMS(a.o.Router.LeaseLeft()), UptimeS: int64(time.Since(a.o.Started()).Seconds()),
		Shards: api.ShardCounts{
			Total: a.o.Shards, Owned: s.Committed().ShardCount(a.o.Self), Held: a.o.HeldShards(), Moving: MovingShards(s), Orphaned: s.Committed().OrphanCount(), Unavailable: in.CountUnavailable(),
		},
		Timing:        timing,
		FormatVersion: uint8(a.o.View.State().FormatVersion()),
		Queue:         api.QueueCounts{Queued: room.Waiting, Bytes: room.Bytes},
		Sockets:       a.countWebSockets(),
		Nodes:         a.Nodes(s, views),
		Keys:          a.keysState(s, views),
		Findings:      findings,
	}
}

// updatedFindings returns the inputs and findings of the last run of watch.diagnose, updated to the replicated
// state s and to the present lease. The watch runs only at intervals, so without the update the state and
// the findings of one status could contradict each other.
func (a *API) updatedFindings(s *ack.State) (diagnosis.Inputs, []diagnosis.Finding) {
	f := a.o.Findings()
	leaderID := a.o.View.Leader()
	c := s.Committed()
	same := f.Inputs.Epoch == uint64(c.Epoch()) && f.Inputs.HasMap == (c.Epoch() != 0)
	leased := f.Inputs.NoLeaseFor == 0 || !a.o.Router.HasLease()
	if same && leased && (f.Inputs.Leader != "" || leaderID == "") {
		return f.Inputs, f.List
	}
	in := f.Inputs
	in.Epoch, in.HasMap = uint64(c.Epoch()), c.Epoch() != 0
	in.Orphaned = min(in.Orphaned, s.Committed().OrphanCount())
	if leaderID != "" {
		in.Leader, in.NoLeaderFor = leaderID, 0
	}
	if !leased {
		in.NoLeaseFor = 0
	}
	in.Nodes = slices.Clone(in.Nodes)
	for i := range in.Nodes {
		x := &in.Nodes[i]
		x.Shards = c.ShardCount(shardmap.NodeID(x.ID))
		x.Lost = x.Lost && x.Shards > 0
	}
	return in, diagnosis.Findings(in)
}

// Findings returns the current findings of this node. The caller must not modify the slice.
func (a *API) Findings() []diagnosis.Finding { return a.o.Findings().List }

// finding returns the finding with the first of codes that is present; the second result is false if
// there is none.
func (a *API) finding(codes ...diagnosis.Code) (diagnosis.Finding, bool) {
	all := a.Findings()
	for _, c := range codes {
		if i := slices.IndexFunc(all, func(f diagnosis.Finding) bool { return f.Code == c }); i >= 0 {
			return all[i], true
		}
	}
	return diagnosis.Finding{}, false
}

// Idle returns why an owner does not serve its shards, as far as this node can determine. Empty means that
// the owner serves them.
func (a *API) Idle(owner string) string {
	f := a.o.Findings()
	return f.Inputs.NotServingReason(owner)
}

// Nodes lists the nodes that gossip, Raft's configuration or the map of s contains, sorted by ID. views
// is the leader's view of the nodes; nil means that the leader did not respond.
func (a *API) Nodes(s *ack.State, views []leader.MemberView) []api.Node {
	voters, others := a.o.View.Servers()
	leads := a.o.View.Leader()
	known := map[string]*api.Node{}
	get := func(id string) *api.Node {
		x := known[id]
		if x == nil {
			x = &api.Node{ID: id, State: "failed", Role: "follower", Weight: 1, App: "unknown", LastHeartbeatMS: -1, Endpoints: map[string]string{}}
			known[id] = x
		}
		return x
	}
	for _, server := range slices.Concat(voters, others) {
		get(consensus.NodeOf(server)).Voter = slices.Contains(voters, server)
	}
	for _, m := range s.Committed().Members() {
		get(string(m.ID)).Weight = m.Weight
	}
	for _, m := range a.o.View.Gossip.Members() {
		if !m.Node {
			continue
		}
		x := get(m.ID)
		x.AppVersion = m.Tags.AppVersion
		x.Zone, x.Weight, x.Endpoints = m.Tags.Zone, max(m.Tags.Weight, 1), m.Tags.Endpoints
		if m.Tags.Role == gossip.RoleGateway {
			x.Role, x.App = gossip.RoleGateway, "none"
		}
		x.State = gossipState(m.Status)
	}
	for _, id := range s.FormerMembers() { // gossip does not contain them on nodes that joined later
		if x := get(string(id)); x.State == "left" || x.State == "failed" {
			x.State = "left"
			if s.IsDropped(id) {
				x.State = "failed"
			}
		}
	}
	asked := s.Policy().Weights
	for id, x := range known {
		if w := asked[shardmap.NodeID(id)]; w > 0 {
			x.Weight = w // an operator's weight replaces the weight that the node announces
		}
		v, ok := leaderloop.ViewOf(views, id)
		a.describe(x, s, v, ok)
		if id == leads {
			x.Role = "leader"
		}
	}
	out := make([]api.Node, 0, len(known))
	for _, x := range known {
		out = append(out, *x)
	}
	slices.SortFunc(out, func(a, b api.Node) int { return cmp.Compare(a.ID, b.ID) })
	return out
}

// gossipState returns the state of a node, computed from gossip alone. describe refines it.
func gossipState(s gossip.Status) string {
	switch s {
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

// describe refines the state of node x, which came from gossip, with the map of s and the policy. If heard
// is true, v is the leader's view of the node, and describe uses it, too.
func (a *API) describe(x *api.Node, s *ack.State, v leader.MemberView, heard bool) {
	id := shardmap.NodeID(x.ID)
	x.Shards = s.Committed().ShardCount(id)
	here := x.State == "joining"
	if here && (s.Proposed().IsMember(id) || x.Role == gossip.RoleGateway) {
		x.State = "active"
	}
	if p := a.o.View.State().Policy(); here && x.Role != gossip.RoleGateway {
		switch {
		case p.IsDraining(id) && x.Shards > 0:
			x.State = "draining"
		case p.Drained[id]:
			x.State = "drained"
		case p.Cordoned[id] && x.State == "active":
			x.State = "cordoned"
		}
	}
	if !heard {
		return
	}
	if v.SinceHeartbeat >= 0 {
		x.LastHeartbeatMS = v.SinceHeartbeat.Milliseconds()
	}
	switch {
	case v.Restarting:
		x.State = "restarting"
	case x.State == "failed" && v.Heartbeat.Goodbye && v.Heartbeat.RestartWithin == 0:
		// The leader has received the goodbye of the node, without an announced return. Gossip does not
		// distribute that to nodes that joined later.
		x.State = "left"
	case !here: // the last heartbeat of an absent node contains an outdated state of its app
	case (v.Silent || v.Crashed) && s.Committed().Epoch() > 0:
		x.State = "failed"
	case v.SinceHeartbeat >= 0 && x.Role != gossip.RoleGateway:
		x.App = "healthy"
		if v.Heartbeat.Unhealthy {
			x.App = "unhealthy"
		}
	}
	switch {
	case x.State == "failed" || x.State == "restarting": // more important than the following states
	case here && v.Heartbeat.Leaving:
		x.State = "draining"
	case x.State == "joining" && x.App == "unhealthy":
		x.State = "unhealthy"
	}
}

// idleOnce returns a function that does the same as Idle, but always uses the inputs of this moment and
// computes the result for each owner only once. It is for callers with many shards.
func (a *API) idleOnce() func(owner string) string {
	in, said := a.o.Findings().Inputs, map[string]string{}
	return func(owner string) string {
		why, ok := said[owner]
		if !ok {
			why = in.NotServingReason(owner)
			said[owner] = why
		}
		return why
	}
}

// Shards lists every shard in order.
func (a *API) Shards() api.ShardList {
	s := a.o.Router.State()
	c := s.Committed()
	out := api.ShardList{Epoch: uint64(c.Epoch()), Proposed: uint64(s.Proposed().Epoch()), Total: c.Len(), Shards: make([]api.Shard, c.Len())}
	idle := a.idleOnce()
	for i := range out.Shards {
		sh := shardmap.Shard(i)
		out.Shards[i] = api.Shard{
			Shard: uint32(i), State: api.ShardOwned, Owner: string(c.Owner(sh)), Epoch: uint64(c.OwnedSince(sh)),
			Previous: string(s.PreviousOwner(sh)),
		}
		_, _, out.Shards[i].Released = s.ReleaseNote(sh)
		out.Shards[i].Unavailable = idle(out.Shards[i].Owner)
		out.Shards[i].StaleReturn = s.IsBarred(c.Owner(sh), sh)
		switch {
		case s.HasOpenProposal() && s.Proposed().Owner(sh) != c.Owner(sh):
			out.Shards[i].State, out.Shards[i].To = api.ShardMoving, string(s.Proposed().Owner(sh))
		case c.Owner(sh) == "":
			out.Shards[i].State = api.ShardOrphaned
		}
	}
	return out
}

// Endpoints lists the endpoints that the present members of gossip announce, including members that are
// not nodes.
func (a *API) Endpoints() []api.Endpoint {
	here := map[string]bool{}
	for _, m := range a.o.View.Gossip.Members() {
		here[m.ID] = m.Status == gossip.Alive || m.Status == gossip.Leaving
	}
	var out []api.Endpoint
	for _, e := range a.o.View.Directory().All() {
		if !here[e.ID] {
			continue
		}
		kind := api.KindMember
		if e.IsNode {
			kind = api.KindNode
		}
		out = append(out, api.Endpoint{Node: e.ID, Kind: kind, Name: e.Name, Addr: e.Addr})
	}
	return out
}

// Map returns the committed shard map in the form of the admin API.
func (a *API) Map() api.Map {
	c := a.o.Router.State().Committed()
	m := api.Map{Epoch: uint64(c.Epoch()), Shards: c.Len(), Hash: api.HashName, Nodes: []api.MapNode{}, Owners: make([]int, 0, c.Len())}
	dir := a.o.View.Directory()
	for _, mem := range c.Members() {
		addr, _ := dir.Addr(string(mem.ID), endpoints.HTTP)
		m.Nodes = append(m.Nodes, api.MapNode{ID: string(mem.ID), HTTP: addr})
	}
	if c.Epoch() > 0 {
		for i := range c.Len() {
			m.Owners = append(m.Owners, c.OwnerIndex(shardmap.Shard(i)))
		}
	}
	return m
}

// WaitMap returns when the epoch of the committed map is greater than after, or when ctx ends.
func (a *API) WaitMap(ctx context.Context, after uint64) { a.o.Router.Await(ctx, after+1, 0) }
