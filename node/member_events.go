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

// Events returns the ring buffer of events of this node.
func (n *Node) Events() *event.Ring { return n.events }

// newEvents creates the ring buffer of events of this process.
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

// recordFinding records that finding f was raised, or cleared if on is false.
func (n *Node) recordFinding(on bool, f verdict.Finding) {
	kind := event.FindingCleared
	if on {
		kind = event.FindingRaised
	}
	n.events.Add(event.Event{Kind: kind, Finding: &f})
}

// recordAppHealth records that the app of a node has become healthy or unhealthy.
func (n *Node) recordAppHealth(node shardmap.NodeID, well bool) {
	kind := event.AppUnhealthy
	if well {
		kind = event.AppHealthy
	}
	n.events.Add(event.Event{Kind: kind, Node: string(node)})
}

// recordWebSocketMoves records the outcome for resumable WebSockets that lost their upstream
// connections together.
func (n *Node) recordWebSocketMoves(h proxy.Handover) {
	n.events.Add(event.Event{Kind: event.SocketsMoved, Sockets: &event.Sockets{
		Shards: h.Shards, Sockets: h.Sockets, Gaps: h.Gaps, Lost: h.Lost, LongestMS: float64(h.Longest.Microseconds()) / 1000,
	}})
}

// lastLeader is the leader in the most recent leader event.
type lastLeader struct {
	mu     sync.Mutex
	leader string
	term   uint64 // term of that event
}

// recordLeader records a change of the leader or the term, as far as this node knows.
func (n *Node) recordLeader() {
	n.lastLeader.mu.Lock()
	defer n.lastLeader.mu.Unlock()
	term := n.raft.Term()
	leader := n.leader()
	r := &n.lastLeader
	switch {
	case n.raft.Term() != term: // leader may belong to another term; Raft reports that change, too
	case leader == "" && r.leader != "":
		n.events.Add(event.Event{Kind: event.LeaderLost, Node: r.leader, Term: term})
		r.leader = ""
	case leader != "" && (leader != r.leader || term != r.term):
		n.events.Add(event.Event{Kind: event.LeaderElected, Node: leader, Term: term})
		r.leader, r.term = leader, term
	}
}

// memberObserver records events of nodes by comparing their states at intervals. Only one goroutine
// uses it.
type memberObserver struct {
	ring    *event.Ring
	onEvent func(kind event.Kind, node string) // called for each event; nil means no call
	states  map[string]memberState
}

// logMemberEvent logs an event of a node. It omits events that other code logs: the leader logs
// unresponsive and restarting nodes, and each process logs its own start.
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

// memberState is the observed state of a node. The zero value means that the node is unknown.
type memberState struct {
	gossip  gossip.Status // zero means that gossip does not contain the node
	server  bool          // in Raft's configuration
	voter   bool
	drained bool
	absent  bool
}

// observeMembers passes the current state of gossip, Raft and the shard map to o.
func (n *Node) observeMembers(o *memberObserver) {
	voters, others := n.servers()
	o.observe(n.gossip.Members(), voters, others, n.router.state.Load())
}

// observe records an event for each change since the previous call. others are the non-voters.
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

// eventsSince returns the events that lead from state before to state x.
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
