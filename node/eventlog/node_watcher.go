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
	seen   map[string]bool // nodes that were present before, and were not removed since
}

// NewNodeWatcher returns the NodeWatcher of node self, which writes to ring and to log.
func NewNodeWatcher(self shardmap.NodeID, ring *event.Ring, log zerolog.Logger) *NodeWatcher {
	return &NodeWatcher{self: self, ring: ring, log: log, seen: map[string]bool{}}
}

// logEvent logs an event of a node. It omits events that other code logs: the leader logs unresponsive
// and restarting nodes, and each process logs its own start.
func (w *NodeWatcher) logEvent(kind event.Kind, node string) {
	message := map[event.Kind]string{
		event.NodeJoined: "node joined", event.NodeRejoined: "node rejoined", event.NodeLeft: "node left", event.NodeRemoved: "node removed",
		event.NodeVoter: "node became a voter", event.NodeNonvoter: "node is no longer voter",
	}[kind]
	if message == "" || node == string(w.self) && kind == event.NodeJoined {
		return
	}
	w.log.Info().Str("peer", node).Msg(message)
}

// nodeState is the observed state of a node. The zero value means that the node is unknown.
type nodeState struct {
	gossip       gossip.Status // zero means that gossip does not contain the node
	isServer     bool          // in Raft's configuration
	isVoter      bool
	isDrained    bool
	isRestarting bool // in place
}

// isPresent reports whether the process of the node runs, according to gossip.
func (s nodeState) isPresent() bool { return s.gossip == gossip.Alive || s.gossip == gossip.Leaving }

// Observe records an event for each change since the previous call. members is the state of gossip,
// servers is Raft's configuration, and replicated contains the shard map.
func (w *NodeWatcher) Observe(members []gossip.Member, servers []consensus.Server, replicated *ack.State) {
	previous, current := w.states, observedStates(members, servers, replicated)
	w.states = current
	nodes := map[string]bool{} // all nodes that are or were known
	for id := range current {
		nodes[id] = true
	}
	for id := range previous {
		nodes[id] = true
	}
	for _, id := range slices.Sorted(maps.Keys(nodes)) {
		for _, kind := range current[id].eventsSince(previous[id]) {
			switch isRestart := current[id].isRestarting || previous[id].isRestarting; {
			case kind == event.NodeJoined && w.seen[id] && isRestart:
				continue // NodeRestarted reports it
			case kind == event.NodeJoined && w.seen[id]:
				kind = event.NodeRejoined
			case kind == event.NodeRemoved:
				delete(w.seen, id)
			}
			w.ring.Add(event.Event{Kind: kind, Node: id})
			w.logEvent(kind, id)
		}
		if current[id].isPresent() {
			w.seen[id] = true
		}
	}
}

// observedStates returns the current state of each node.
func observedStates(members []gossip.Member, servers []consensus.Server, replicated *ack.State) map[string]nodeState {
	states := map[string]nodeState{}
	for _, server := range servers { // a node has two servers while its disk is replaced
		node := server.Node()
		states[node] = nodeState{isServer: true, isVoter: server.Voter || states[node].isVoter}
	}
	for _, member := range members {
		if member.Node {
			state := states[member.ID]
			state.gossip = member.Status
			states[member.ID] = state
		}
	}
	for id, state := range states {
		node := shardmap.NodeID(id)
		ownsShards := replicated.Committed().ShardCount(node) > 0 || replicated.Proposed().ShardCount(node) > 0
		state.isDrained = replicated.Policy().Drained[node] && !ownsShards
		state.isRestarting = replicated.Restarting(node)
		states[id] = state
	}
	return states
}

// eventsSince returns the events that lead from a previous state to state s.
func (s nodeState) eventsSince(previous nodeState) (kinds []event.Kind) {
	addIf := func(hasHappened bool, kind event.Kind) {
		if hasHappened {
			kinds = append(kinds, kind)
		}
	}
	addIf(s.isPresent() && !previous.isPresent(), event.NodeJoined)
	addIf(s.gossip == gossip.Left && previous.gossip != gossip.Left, event.NodeLeft)
	addIf(s.gossip == gossip.Failed && previous.gossip != gossip.Failed, event.NodeFailed)
	addIf(s.isRestarting && !previous.isRestarting, event.NodeRestarting)
	addIf(!s.isRestarting && previous.isRestarting && s.isPresent(), event.NodeRestarted)
	addIf(s.isVoter && !previous.isVoter, event.NodeVoter)
	addIf(!s.isVoter && previous.isVoter, event.NodeNonvoter)
	addIf(s.isDrained && !previous.isDrained, event.NodeDrained)
	addIf(s == (nodeState{}), event.NodeRemoved)
	return kinds
}
