package node

import (
	"maps"
	"slices"
	"sync"

	"shardway/ack"
	"shardway/event"
	"shardway/node/gossip"
	"shardway/proxy"
	"shardway/shardmap"
	"shardway/verdict"
)

// Events has what happens at this node.
func (n *Node) Events() *event.Ring { return n.events }

// newEvents returns the ring of this process.
func (n *Node) newEvents() *event.Ring {
	return event.NewRing(event.Options{Node: string(n.self), Run: n.nonce, Stamp: func() event.Stamp {
		at := event.Stamp{Boot: n.agent.boot.Load(), Epoch: uint64(n.router.state.Load().Committed().Epoch())}
		select {
		case <-n.raftOpen:
			at.Term = n.raft.Term()
		default:
		}
		return at
	}})
}

// tellFinding tells that something is wrong at this node or with its cluster, or that it
// is not any more.
func (n *Node) recordFinding(on bool, f verdict.Finding) {
	kind := event.FindingCleared
	if on {
		kind = event.FindingRaised
	}
	n.events.Add(event.Event{Kind: kind, Finding: &f})
}

// tellApp tells how the app at a node is.
func (n *Node) recordAppHealth(node shardmap.NodeID, well bool) {
	kind := event.AppUnhealthy
	if well {
		kind = event.AppHealthy
	}
	n.events.Add(event.Event{Kind: kind, Node: string(node)})
}

// tellSockets tells what happened to kept sockets that lost their legs together.
func (n *Node) recordWebSocketMoves(h proxy.Handover) {
	n.events.Add(event.Event{Kind: event.SocketsMoved, Sockets: &event.Sockets{
		Shards: h.Shards, Sockets: h.Sockets, Gaps: h.Gaps, Lost: h.Lost, LongestMS: float64(h.Longest.Microseconds()) / 1000,
	}})
}

// reign is who was last told to lead.
type lastLeader struct {
	mu     sync.Mutex
	leader string
	term   uint64 // when that was told
}

// tellLeader tells who leads, if that has changed as far as this node knows.
func (n *Node) recordLeader() {
	n.lastLeader.mu.Lock()
	defer n.lastLeader.mu.Unlock()
	term := n.raft.Term()
	leader := n.leader()
	r := &n.lastLeader
	switch {
	case n.raft.Term() != term: // the leader may be that of another term: there is a hint of it
	case leader == "" && r.leader != "":
		n.events.Add(event.Event{Kind: event.LeaderLost, Node: r.leader, Term: term})
		r.leader = ""
	case leader != "" && (leader != r.leader || term != r.term):
		n.events.Add(event.Event{Kind: event.LeaderElected, Node: leader, Term: term})
		r.leader, r.term = leader, term
	}
}

// onlooker tells of what becomes of nodes, by looking now and then. One goroutine has it.
type memberObserver struct {
	ring    *event.Ring
	onEvent func(kind event.Kind, node string) // nil: nobody wants to know
	states  map[string]memberState
}

// logTurn logs what became of a node, but for what others say: the leader who is silent
// or absent, and each process that it started.
func (n *Node) logMemberEvent(kind event.Kind, node string) {
	message := map[event.Kind]string{
		event.NodeJoined: "node joined", event.NodeLeft: "node left", event.NodeRemoved: "node removed",
		event.NodeVoter: "node became a voter", event.NodeNonvoter: "node is no longer voter",
	}[kind]
	if message == "" || node == string(n.self) && kind == event.NodeJoined {
		return
	}
	n.log.Info().Str("peer", node).Msg(message)
}

// sight is what was last seen of a node.
type memberState struct {
	gossip  gossip.Status // zero: it knows no such node
	server  bool          // in Raft's configuration
	voter   bool
	drained bool
	absent  bool
}

// look looks at the nodes.
func (n *Node) observeMembers(o *memberObserver) {
	voters, others := n.servers()
	o.observe(n.gossip.Members(), voters, others, n.router.state.Load())
}

// look tells what has changed since the look before.
func (o *memberObserver) observe(members []gossip.Member, voters, others []string, s *ack.State) {
	now := map[string]memberState{}
	for _, server := range others {
		now[nodeOf(server)] = memberState{server: true}
	}
	for _, server := range voters {
		now[nodeOf(server)] = memberState{server: true, voter: true}
	}
	for _, m := range members {
		if m.Node {
			x := now[m.ID]
			x.gossip = m.Status
			now[m.ID] = x
		}
	}
	for id, x := range now {
		node := shardmap.NodeID(id)
		x.drained = s.Policy().Drained[node] && s.Committed().Count(node) == 0 && s.Last().Count(node) == 0
		x.absent = s.Restarting(node)
		now[id] = x
	}
	before := o.states
	o.states = now
	for id := range before {
		if _, there := now[id]; !there {
			now[id] = memberState{}
		}
	}
	for _, id := range slices.Sorted(maps.Keys(now)) {
		for _, kind := range now[id].eventsSince(before[id]) {
			o.ring.Add(event.Event{Kind: kind, Node: id})
			if o.onEvent != nil {
				o.onEvent(kind, id)
			}
		}
		if now[id] == (memberState{}) {
			delete(now, id)
		}
	}
}

// since returns what has happened since a node was seen as before.
func (x memberState) eventsSince(before memberState) (kinds []event.Kind) {
	present := func(s memberState) bool { return s.gossip == gossip.Alive || s.gossip == gossip.Leaving }
	for _, change := range []struct {
		happened bool
		kind     event.Kind
	}{
		{present(x) && !present(before), event.NodeJoined},
		{x.gossip == gossip.Left && before.gossip != gossip.Left, event.NodeLeft},
		{x.gossip == gossip.Failed && before.gossip != gossip.Failed, event.NodeFailed},
		{x.absent && !before.absent, event.NodeRestarting},
		{!x.absent && before.absent && present(x), event.NodeRestarted},
		{x.voter && !before.voter, event.NodeVoter},
		{!x.voter && before.voter, event.NodeNonvoter},
		{x.drained && !before.drained, event.NodeDrained},
		{x == (memberState{}), event.NodeRemoved},
	} {
		if change.happened {
			kinds = append(kinds, change.kind)
		}
	}
	return kinds
}
