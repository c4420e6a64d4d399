package eventlog

import (
	"maps"
	"slices"

	"github.com/rs/zerolog"

	"shardway/ack"
	"shardway/event"
	"shardway/node/consensus"
	"shardway/node/gossip"
	"shardway/shardmap"
)

// NodeWatcher records events of nodes by comparing their states at intervals. Only one goroutine uses it.
type NodeWatcher struct {
	self   shardmap.NodeID
	ring   *event.Ring
	log    zerolog.Logger
	states map[string]nodeState
}

// NewNodeWatcher returns the NodeWatcher of node self, which writes to ring and to log.
func NewNodeWatcher(self shardmap.NodeID, ring *event.Ring, log zerolog.Logger) *NodeWatcher {
	return &NodeWatcher{self: self, ring: ring, log: log}
}

// logEvent logs an event of a node. It omits events that other code logs: the leader logs unresponsive
// and restarting nodes, and each process logs its own start.
func (w *NodeWatcher) logEvent(kind event.Kind, node string) {
	message := map[event.Kind]string{
		event.NodeJoined: "node joined", event.NodeLeft: "node left", event.NodeRemoved: "node removed",
		event.NodeVoter: "node became a voter", event.NodeNonvoter: "node is no longer voter",
	}[kind]
	if message == "" || node == string(w.self) && kind == event.NodeJoined {
		return
	}
	w.log.Info().Str("peer", node).Msg(message)
}

// nodeState is the observed state of a node. The zero value means that the node is unknown.
type nodeState struct {
	gossip  gossip.Status // zero means that gossip does not contain the node
	server  bool          // in Raft's configuration
	voter   bool
	drained bool
	absent  bool
}

// Observe records an event for each change since the previous call. members is the state of gossip,
// servers is Raft's configuration, and s contains the shard map.
func (w *NodeWatcher) Observe(members []gossip.Member, servers []consensus.Server, s *ack.State) {
	now := map[string]nodeState{}
	for _, server := range servers { // a node has two servers while its disk is replaced
		node := server.Node()
		now[node] = nodeState{server: true, voter: server.Voter || now[node].voter}
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
		x.drained = s.Policy().Drained[node] && s.Committed().ShardCount(node) == 0 && s.Proposed().ShardCount(node) == 0
		x.absent = s.Restarting(node)
		now[id] = x
	}
	before := w.states
	w.states = now
	for id := range before {
		if _, there := now[id]; !there {
			now[id] = nodeState{}
		}
	}
	for _, id := range slices.Sorted(maps.Keys(now)) {
		for _, kind := range now[id].eventsSince(before[id]) {
			w.ring.Add(event.Event{Kind: kind, Node: id})
			w.logEvent(kind, id)
		}
		if now[id] == (nodeState{}) {
			delete(now, id)
		}
	}
}

// eventsSince returns the events that lead from state before to state x.
func (x nodeState) eventsSince(before nodeState) (kinds []event.Kind) {
	present := func(s nodeState) bool { return s.gossip == gossip.Alive || s.gossip == gossip.Leaving }
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
		{x == (nodeState{}), event.NodeRemoved},
	} {
		if change.happened {
			kinds = append(kinds, change.kind)
		}
	}
	return kinds
}
