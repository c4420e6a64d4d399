package node

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
	"shardway/node/control"
	"shardway/node/gossip"
	"shardway/node/leaderloop"
	"shardway/shardmap"
)

// moving returns the number of shards that the open proposal moves; zero if no proposal is open.
func moving(s *ack.State) int {
	if !s.Open() {
		return 0
	}
	return len(shardmap.Diff(s.Committed(), s.Last()))
}

// orphaned returns the number of shards without an owner. Before the first map, no shard has an owner.
func orphaned(s *ack.State) int { return s.Committed().Orphans() }

// state returns the state of this node, as docs/internals/protocol.md names it.
func (n *Node) state() string { return n.stateBy(n.router.State()) }

// stateBy returns the state of this node, computed from the replicated state s. With the same s, several
// parts of one status are consistent.
func (n *Node) stateBy(s *ack.State) string {
	switch {
	case n.stopping.Load():
		return "stopping"
	case n.agent.leaving.Load():
		return "draining"
	case n.ending.Load():
		return "stopping" // a restart in place: the node keeps its shards, see hold
	case n.view.Leader() == "" && s.Committed().Epoch() == 0: // epoch 0 means that there is no shard map yet
		return "starting"
	case s.Committed().Epoch() != 0 && !s.Last().Has(n.self) && n.sick(): // excluded because of its app
		return "unhealthy"
	case s.Committed().Epoch() == 0 || !n.o.Gateway && !n.view.IsDrained() && !s.Last().Has(n.self): // not in the map yet
		return "joining"
	case n.o.Gateway && n.view.Leader() == "", !n.o.Gateway && !n.router.HasLease():
		return "electing"
	case n.view.IsDrained() && s.Committed().Count(n.self) > 0:
		return "draining"
	case n.view.IsDrained():
		return "drained"
	case s.Open():
		return "rebalancing"
	}
	return "operational"
}

// sick reports whether the app fails its health checks. Before the first check it returns false.
func (n *Node) sick() bool {
	return n.health != nil && n.health.Checked() && !n.health.Healthy()
}

// Ready returns nil if this node is ready for requests, otherwise an *api.UnreadyError with the reason. It
// uses the same lease check as the admission of requests (Router.HasLease).
func (n *Node) Ready() error {
	s := n.router.State()
	switch {
	case n.stopping.Load() || n.agent.leaving.Load():
		return n.unready("draining", diagnosis.Draining)
	case n.ending.Load():
		return n.unready("stopping")
	case s.Committed().Epoch() == 0:
		return n.unready("no shard map yet", diagnosis.NoPeers, diagnosis.Bootstrapping, diagnosis.NoQuorum, diagnosis.DiskStalled, diagnosis.NoHealthyApp, diagnosis.ClustersDiffer, diagnosis.PeerPortUnreachable, diagnosis.Joining, diagnosis.Unavailable)
	case n.o.Gateway:
		if _, lost := n.finding(diagnosis.NoQuorum, diagnosis.NoPeers); lost && n.view.Leader() == "" {
			return n.unready("there is no leader", diagnosis.NoQuorum, diagnosis.NoPeers)
		}
		return nil
	case !n.router.HasLease():
		if n.agent.duplicateAddr.Load() != nil {
			return n.unready("duplicate-node", diagnosis.DuplicateNode)
		}
		if n.view.Leader() == "" {
			return n.unready("no lease, because there is no leader", diagnosis.NoQuorum, diagnosis.DiskStalled, diagnosis.NoPeers, diagnosis.NoLease)
		}
		return n.unready("no lease", diagnosis.NoLease)
	case n.health != nil && !n.health.Healthy() && !n.servesUnhealthy():
		return n.unready("the app does not answer", diagnosis.NoHealthyApp, diagnosis.HealthPanic, diagnosis.AppUnhealthy)
	case !s.Committed().Has(n.self) && !n.view.IsDrained():
		return n.unready("joining: not in the shard map yet", diagnosis.Joining)
	}
	return nil
}

// servesUnhealthy reports whether this node serves its shards although its app is unhealthy: the leader
// lets the node keep them because most apps are unhealthy, and the app still accepts connections.
func (n *Node) servesUnhealthy() bool {
	if n.health.Report().Refused {
		return false
	}
	for _, x := range n.watch.result.Load().inputs.Nodes {
		if x.ID == string(n.self) {
			return x.Kept
		}
	}
	return false
}

// unready returns the error of Ready. brief is the reason in short. The details come from the finding with
// the first of codes that is present, if there is one.
func (n *Node) unready(brief string, codes ...diagnosis.Code) error {
	u := &api.UnreadyError{Brief: brief}
	if f, ok := n.finding(codes...); ok {
		u.Why = f.String()
	}
	return u
}

// Status returns this node's view of itself and of the cluster.
func (n *Node) Status() api.Status {
	s := n.router.State()
	cluster, _ := n.o.Dir.Cluster()
	room := n.room.Stats()
	role := "follower"
	switch {
	case n.leadership() != nil:
		role = "leader"
	case n.o.Gateway:
		role = "gateway"
	case n.raft.Candidate():
		role = "candidate"
	}
	var timing *api.TimingState
	if known := n.fsm.state.Load(); known.Bootstrapped() {
		t := leaderloop.TimingState(known)
		timing = &t
	}
	in, findings := n.foundBy(s)
	views := n.leaderViews()
	return api.Status{
		Node: string(n.self), Boot: n.o.Dir.Boot(), Cluster: cluster, Version: n.o.Version,
		State: n.stateBy(s), Role: role, Leader: n.view.Leader(), Term: n.raft.Term(),
		Epoch: uint64(s.Committed().Epoch()), Proposed: uint64(s.Last().Epoch()),
		LeaseMS: leaseMS(n.router.LeaseLeft()), UptimeS: int64(time.Since(n.started).Seconds()),
		Shards: api.ShardCounts{
			Total: n.o.Shards, Owned: s.Committed().Count(n.self), Held: n.heldShards(), Moving: moving(s), Orphaned: orphaned(s), Unavailable: in.Unavailable(),
		},
		Timing:        timing,
		FormatVersion: uint8(n.fsm.state.Load().Level()),
		Queue:         api.QueueCounts{Queued: room.Waiting, Bytes: room.Bytes},
		Sockets:       n.countWebSockets(),
		Nodes:         n.nodesBy(s, views),
		Keys:          n.keysState(s, views),
		Findings:      findings,
	}
}

// foundBy returns the inputs and findings of the last run of watch.diagnose, updated to the replicated
// state s and to the present lease. The watch runs only at intervals, so without the update the state and
// the findings of one status could contradict each other.
func (n *Node) foundBy(s *ack.State) (diagnosis.Inputs, []diagnosis.Finding) {
	f := n.watch.result.Load()
	leaderID := n.view.Leader()
	c := s.Committed()
	same := f.inputs.Epoch == uint64(c.Epoch()) && f.inputs.Mapped == (c.Epoch() != 0)
	leased := f.inputs.NoLease == 0 || !n.router.HasLease()
	if same && leased && (f.inputs.Leader != "" || leaderID == "") {
		return f.inputs, f.findings
	}
	in := f.inputs
	in.Epoch, in.Mapped = uint64(c.Epoch()), c.Epoch() != 0
	in.Orphaned = min(in.Orphaned, orphaned(s))
	if leaderID != "" {
		in.Leader, in.NoLeader = leaderID, 0
	}
	if !leased {
		in.NoLease = 0
	}
	in.Nodes = slices.Clone(in.Nodes)
	for i := range in.Nodes {
		x := &in.Nodes[i]
		x.Shards = c.Count(shardmap.NodeID(x.ID))
		x.Gone = x.Gone && x.Shards > 0
	}
	return in, diagnosis.Of(in)
}

// Idle returns why an owner does not serve its shards, as far as this node can determine. Empty means that
// the owner serves them.
func (n *Node) Idle(owner string) string {
	f := n.watch.result.Load()
	return f.inputs.Idle(owner)
}

// nodesBy lists the nodes that gossip, Raft's configuration or the map of s contains, sorted by ID. views
// is the leader's view of the nodes; nil means that the leader did not respond.
func (n *Node) nodesBy(s *ack.State, views []leader.MemberView) []api.Node {
	voters, others := n.view.Servers()
	leads := n.view.Leader()
	known := map[string]*api.Node{}
	get := func(id string) *api.Node {
		a := known[id]
		if a == nil {
			a = &api.Node{ID: id, State: "failed", Role: "follower", Weight: 1, App: "unknown", LastHeartbeatMS: -1, Endpoints: map[string]string{}}
			known[id] = a
		}
		return a
	}
	for _, server := range slices.Concat(voters, others) {
		get(consensus.NodeOf(server)).Voter = slices.Contains(voters, server)
	}
	for _, m := range s.Committed().Members() {
		get(string(m.ID)).Weight = m.Weight
	}
	for _, m := range n.gossip.Members() {
		if !m.Node {
			continue
		}
		a := get(m.ID)
		a.AppVersion = m.Tags.AppVersion
		a.Zone, a.Weight, a.Endpoints = m.Tags.Zone, max(m.Tags.Weight, 1), m.Tags.Endpoints
		if m.Tags.Role == roleGateway {
			a.Role, a.App = roleGateway, "none"
		}
		a.State = gossipState(m.Status)
	}
	for _, id := range s.FormerMembers() { // gossip does not contain them on nodes that joined later
		if a := get(string(id)); a.State == "left" || a.State == "failed" {
			a.State = "left"
			if s.Dropped(id) {
				a.State = "failed"
			}
		}
	}
	asked := s.Policy().Weights
	for id, a := range known {
		if w := asked[shardmap.NodeID(id)]; w > 0 {
			a.Weight = w // an operator's weight replaces the weight that the node announces
		}
		v, ok := leaderloop.ViewOf(views, id)
		n.describe(a, s, v, ok)
		if id == leads {
			a.Role = "leader"
		}
	}
	out := make([]api.Node, 0, len(known))
	for _, a := range known {
		out = append(out, *a)
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

// describe refines the state of node a, which came from gossip, with the map of s and the policy. If heard
// is true, v is the leader's view of the node, and describe uses it, too.
func (n *Node) describe(a *api.Node, s *ack.State, v leader.MemberView, heard bool) {
	id := shardmap.NodeID(a.ID)
	a.Shards = s.Committed().Count(id)
	here := a.State == "joining"
	if here && (s.Last().Has(id) || a.Role == roleGateway) {
		a.State = "active"
	}
	if p := n.fsm.state.Load().Policy(); here && a.Role != roleGateway {
		switch {
		case p.Leaves(id) && a.Shards > 0:
			a.State = "draining"
		case p.Drained[id]:
			a.State = "drained"
		case p.Cordoned[id] && a.State == "active":
			a.State = "cordoned"
		}
	}
	if !heard {
		return
	}
	if v.SinceHeartbeat >= 0 {
		a.LastHeartbeatMS = v.SinceHeartbeat.Milliseconds()
	}
	switch {
	case v.Restarting:
		a.State = "restarting"
	case a.State == "failed" && v.Heartbeat.Goodbye && v.Heartbeat.Back == 0:
		// The leader has received the goodbye of the node, without an announced return. Gossip does not
		// distribute that to nodes that joined later.
		a.State = "left"
	case !here: // the last heartbeat of an absent node contains an outdated state of its app
	case (v.Silent || v.Crashed) && s.Committed().Epoch() > 0:
		a.State = "failed"
	case v.SinceHeartbeat >= 0 && a.Role != roleGateway:
		a.App = "healthy"
		if v.Heartbeat.Unhealthy {
			a.App = "unhealthy"
		}
	}
	switch {
	case a.State == "failed" || a.State == "restarting": // more important than the following states
	case here && v.Heartbeat.Leaving:
		a.State = "draining"
	case a.State == "joining" && a.App == "unhealthy":
		a.State = "unhealthy"
	}
}

// leaderViews returns the leader's view of the nodes, which it requests from the leader if that is another
// node. nil means that there is no leader or that it did not respond within viewTimeout.
func (n *Node) leaderViews() []leader.MemberView {
	return n.leaderViewsBy(context.Background())
}

// leaderViewsBy does the same as leaderViews, and also returns nil if ctx ends.
func (n *Node) leaderViewsBy(ctx context.Context) []leader.MemberView {
	ctx, cancel := context.WithTimeout(ctx, viewTimeout)
	defer cancel()
	if l := n.leadership(); l != nil {
		v, _ := l.View(ctx)
		return v
	}
	leaderID := n.view.Leader()
	if leaderID == "" || leaderID == string(n.self) {
		return nil
	}
	var members []wireMember
	err := n.client.Call(ctx, leaderID, control.Request{Kind: control.Views}, &members)
	var views []leader.MemberView
	if err == nil {
		views, err = memberViews(members)
	}
	if err != nil {
		n.log.Debug().Err(err).Msg("leader's view not available")
		return nil
	}
	return views
}

// idleOnce returns a function that does the same as Idle, but always uses the inputs of this moment and
// computes the result for each owner only once. It is for callers with many shards.
func (n *Node) idleOnce() func(owner string) string {
	in, said := n.watch.result.Load().inputs, map[string]string{}
	return func(owner string) string {
		why, ok := said[owner]
		if !ok {
			why = in.Idle(owner)
			said[owner] = why
		}
		return why
	}
}

// Shards lists every shard in order.
func (n *Node) Shards() api.ShardList {
	s := n.router.State()
	c := s.Committed()
	out := api.ShardList{Epoch: uint64(c.Epoch()), Proposed: uint64(s.Last().Epoch()), Total: c.Len(), Shards: make([]api.Shard, c.Len())}
	idle := n.idleOnce()
	for i := range out.Shards {
		sh := shardmap.Shard(i)
		out.Shards[i] = api.Shard{
			Shard: uint32(i), State: api.ShardOwned, Owner: string(c.Owner(sh)), Epoch: uint64(c.OwnedSince(sh)),
			Previous: string(s.OwnerBefore(sh)),
		}
		_, _, out.Shards[i].Released = s.Released(sh)
		out.Shards[i].Unavailable = idle(out.Shards[i].Owner)
		out.Shards[i].StaleReturn = s.Barred(c.Owner(sh), sh)
		switch {
		case s.Open() && s.Last().Owner(sh) != c.Owner(sh):
			out.Shards[i].State, out.Shards[i].To = api.ShardMoving, string(s.Last().Owner(sh))
		case c.Owner(sh) == "":
			out.Shards[i].State = api.ShardOrphaned
		}
	}
	return out
}

// Endpoints lists the endpoints that the present members of gossip announce, including members that are
// not nodes.
func (n *Node) Endpoints() []api.Endpoint {
	here := map[string]bool{}
	for _, m := range n.gossip.Members() {
		here[m.ID] = m.Status == gossip.Alive || m.Status == gossip.Leaving
	}
	var out []api.Endpoint
	for _, e := range n.view.Directory().All() {
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
func (n *Node) Map() api.Map {
	c := n.router.State().Committed()
	m := api.Map{Epoch: uint64(c.Epoch()), Shards: c.Len(), Hash: api.HashName, Nodes: []api.MapNode{}, Owners: make([]int, 0, c.Len())}
	dir := n.view.Directory()
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
func (n *Node) WaitMap(ctx context.Context, after uint64) { n.router.Await(ctx, after+1, 0) }
