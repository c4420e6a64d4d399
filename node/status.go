package node

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"shardway/ack"
	"shardway/admin"
	"shardway/endpoints"
	"shardway/node/gossip"
	"shardway/shardmap"
)

var _ admin.Cluster = (*Node)(nil)

// moving counts the shards that an open proposal moves.
func moving(s *ack.State) int {
	if !s.Open() {
		return 0
	}
	return len(shardmap.Diff(s.Committed(), s.Last()))
}

// orphaned counts the shards without an owner; before the first map all are.
func orphaned(s *ack.State) int { return s.Committed().Orphans() }

// state returns the node's state in the words of docs/protocol.md.
func (n *Node) state() string {
	s := n.router.state.Load()
	switch {
	case n.stopping.Load():
		return "stopping"
	case n.agent.leaving.Load():
		return "draining"
	case n.leader() == "" && s.Committed().Epoch() == 0:
		return "starting"
	case s.Committed().Epoch() == 0 || !n.o.Gateway && !n.drained() && !s.Last().Has(n.self):
		return "joining"
	case n.o.Gateway && n.leader() == "", !n.o.Gateway && !n.router.leased():
		return "electing"
	case n.drained() && s.Committed().Count(n.self) > 0:
		return "draining"
	case n.drained():
		return "drained"
	case s.Open():
		return "resharding"
	}
	return "operational"
}

// Ready returns nil, or why requests would not be served here. It asks the same
// function that admission asks. The error is an *admin.UnreadyError.
func (n *Node) Ready() error {
	s := n.router.state.Load()
	switch {
	case n.stopping.Load() || n.agent.leaving.Load():
		return &admin.UnreadyError{Brief: "draining"}
	case s.Committed().Epoch() == 0:
		if err := n.gossip.Alone(); err != nil && len(n.o.Join) > 0 {
			return &admin.UnreadyError{Brief: "no shard map yet", Why: err.Error()}
		}
		return &admin.UnreadyError{Brief: "no shard map yet", Why: n.unborn()}
	case n.o.Gateway:
		return nil
	case !n.router.leased():
		if p := n.agent.elsewhere.Load(); p != nil {
			return &admin.UnreadyError{Brief: "duplicate-node", Why: "another process with this node's id runs at " + *p}
		}
		if n.leader() == "" {
			return &admin.UnreadyError{Brief: "no lease, because there is no leader", Why: n.leaderless()}
		}
		return &admin.UnreadyError{Brief: "no lease"}
	case n.health != nil && !n.health.good.Load():
		return &admin.UnreadyError{Brief: "the app does not answer"}
	case !s.Committed().Has(n.self) && !n.drained():
		return &admin.UnreadyError{Brief: "joining: not in the shard map yet"}
	}
	return nil
}

// Status returns this node's view of itself and of the cluster.
func (n *Node) Status() admin.Status {
	s := n.router.state.Load()
	cluster, _ := n.o.Dir.Cluster()
	room := n.room.Stats()
	lease := n.router.LeaseLeft()
	role := "follower"
	switch {
	case n.leadership() != nil:
		role = "leader"
	case n.o.Gateway:
		role = "gateway"
	case n.raft.Candidate():
		role = "candidate"
	}
	var timing *admin.TimingState
	if known := n.fsm.state.Load(); known.Born() {
		t := stateOf(known)
		timing = &t
	}
	return admin.Status{
		Node: string(n.self), Boot: n.o.Dir.Boot(), Cluster: cluster, Version: n.o.Version,
		State: n.state(), Role: role, Leader: n.leader(), Term: n.raft.Term(),
		Epoch: uint64(s.Committed().Epoch()), Proposed: uint64(s.Last().Epoch()),
		LeaseMS: max((lease + time.Millisecond - 1).Milliseconds(), 0), UptimeS: int64(time.Since(n.started).Seconds()),
		Shards: admin.ShardCounts{
			Total: n.o.Shards, Owned: s.Committed().Count(n.self), Moving: moving(s), Orphaned: orphaned(s),
		},
		Timing:   timing,
		Level:    uint8(n.fsm.state.Load().Level()),
		Queue:    admin.QueueCounts{Waiting: room.Waiting, Bytes: room.Bytes},
		Nodes:    n.nodes(s),
		Warnings: n.warnings(),
	}
}

func (n *Node) warnings() []string {
	var all []string
	voters, _ := n.servers()
	if len(voters) == 2 {
		all = append(all, "two voters: the loss of either stops the cluster; add a third node, or a gateway as witness")
	}
	if behind := n.levelBehind(); behind != "" {
		all = append(all, behind)
	}
	if w := n.agent.failing.warning(); w != "" {
		all = append(all, w)
	}
	p := n.Policy()
	if p.Pause != "" {
		all = append(all, "planned moves of shards are paused for "+p.Pause+": `shardway resume` ends it")
	}
	if len(p.Drained) > 0 {
		all = append(all, "drained, and to own nothing until `shardway uncordon`: "+strings.Join(p.Drained, ", "))
	}
	if len(p.Cordoned) > 0 {
		all = append(all, "cordoned, and to get nothing new until `shardway uncordon`: "+strings.Join(p.Cordoned, ", "))
	}
	all = append(all, quarantineWarnings(p.Quarantined)...)
	return append(all, n.poisonWarnings(n.fsm.state.Load().Policy())...)
}

// nodes lists the nodes that gossip, Raft or the map know of. What only the
// leader knows is asked of it, and left out if it does not answer at once.
func (n *Node) nodes(s *ack.State) []admin.Node {
	views := n.leaderViews()
	voters, others := n.servers()
	leader := n.leader()
	known := map[string]*admin.Node{}
	get := func(id string) *admin.Node {
		a := known[id]
		if a == nil {
			a = &admin.Node{ID: id, State: "failed", Role: "follower", Weight: 1, App: "unknown", HeardMS: -1, Endpoints: map[string]string{}}
			known[id] = a
		}
		return a
	}
	for _, server := range slices.Concat(voters, others) {
		get(nodeOf(server)).Voter = slices.Contains(voters, server)
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
	for id, a := range known {
		v, ok := viewOf(views, id)
		n.describe(a, s, v, ok)
		if id == leader {
			a.Role = "leader"
		}
	}
	out := make([]admin.Node, 0, len(known))
	for _, a := range known {
		out = append(out, *a)
	}
	slices.SortFunc(out, func(a, b admin.Node) int { return cmp.Compare(a.ID, b.ID) })
	return out
}

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

// describe refines what gossip says by the map and by the leader's view.
func (n *Node) describe(a *admin.Node, s *ack.State, v ack.MemberView, heard bool) {
	id := shardmap.NodeID(a.ID)
	a.Shards = s.Committed().Count(id)
	here := a.State == "joining"
	if here && (s.Last().Has(id) || a.Role == roleGateway) {
		a.State = "active"
	}
	if p := n.fsm.state.Load().Policy(); here && a.Role != roleGateway {
		switch {
		case p.Drained[id] && a.Shards > 0:
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
	if v.HeardAgo >= 0 {
		a.HeardMS = v.HeardAgo.Milliseconds()
		if a.Role != roleGateway {
			a.App = "healthy"
			if v.Heartbeat.Unhealthy {
				a.App = "unhealthy"
			}
		}
	}
	switch {
	case v.Absent:
		a.State = "absent"
	case v.Heartbeat.Leaving && here:
		a.State = "draining"
	case here && (v.Silent || v.Crashed) && s.Committed().Epoch() > 0:
		a.State = "failed"
	}
}

// leaderViews returns what the leader knows of the nodes, from wherever it is.
func (n *Node) leaderViews() []ack.MemberView {
	ctx, cancel := context.WithTimeout(context.Background(), viewTimeout)
	defer cancel()
	if l := n.leadership(); l != nil {
		v, _ := l.view(ctx)
		return v
	}
	leader := n.leader()
	if leader == "" || leader == string(n.self) {
		return nil
	}
	var views []ack.MemberView
	if err := n.ask(ctx, leader, request{What: askViews}, &views); err != nil {
		n.log.Debug().Err(err).Msg("leader's view not available")
		return nil
	}
	return views
}

// Shards lists every shard in order.
func (n *Node) Shards() admin.ShardList {
	s := n.router.state.Load()
	c := s.Committed()
	out := admin.ShardList{Epoch: uint64(c.Epoch()), Proposed: uint64(s.Last().Epoch()), Total: c.Len(), Shards: make([]admin.Shard, c.Len())}
	for i := range out.Shards {
		sh := shardmap.Shard(i)
		out.Shards[i] = admin.Shard{
			Shard: uint32(i), State: admin.ShardOwned, Owner: string(c.Owner(sh)), Epoch: uint64(c.OwnedSince(sh)),
			Previous: string(s.OwnerBefore(sh)),
		}
		_, _, out.Shards[i].Released = s.Released(sh)
		switch {
		case s.Open() && s.Last().Owner(sh) != c.Owner(sh):
			out.Shards[i].State, out.Shards[i].To = admin.ShardMoving, string(s.Last().Owner(sh))
		case c.Owner(sh) == "":
			out.Shards[i].State = admin.ShardOrphaned
		}
	}
	return out
}

// Endpoints lists what the members announce that are there, also those that are
// no nodes.
func (n *Node) Endpoints() []admin.Endpoint {
	here := map[string]bool{}
	for _, m := range n.gossip.Members() {
		here[m.ID] = m.Status == gossip.Alive || m.Status == gossip.Leaving
	}
	var out []admin.Endpoint
	for _, e := range n.directory.Load().All() {
		if !here[e.ID] {
			continue
		}
		kind := admin.KindMember
		if e.IsNode {
			kind = admin.KindNode
		}
		out = append(out, admin.Endpoint{Node: e.ID, Kind: kind, Name: e.Name, Addr: e.Addr})
	}
	return out
}

// Map returns the committed map in the published form.
func (n *Node) Map() admin.Map {
	c := n.router.state.Load().Committed()
	m := admin.Map{Epoch: uint64(c.Epoch()), Shards: c.Len(), Hash: admin.HashName, Nodes: []admin.MapNode{}, Owners: make([]int, 0, c.Len())}
	dir := n.directory.Load()
	for _, mem := range c.Members() {
		addr, _ := dir.Addr(string(mem.ID), endpoints.HTTP)
		m.Nodes = append(m.Nodes, admin.MapNode{ID: string(mem.ID), HTTP: addr})
	}
	if c.Epoch() > 0 {
		for i := range c.Len() {
			m.Owners = append(m.Owners, c.OwnerIndex(shardmap.Shard(i)))
		}
	}
	return m
}

// WaitMap returns once the committed map's epoch is above after, or ctx ends.
func (n *Node) WaitMap(ctx context.Context, after uint64) { n.router.Await(ctx, after+1, 0) }
