package scale

import (
	"time"

	"shardway/ack"
	"shardway/ack/agent"
	"shardway/internal/clock"
	"shardway/shardmap"
)

// tickInterval is the tick interval of nodes and leader, as in package node.
const tickInterval = clock.MinInterval

// Node is one process: its part of the protocol, and its applied state.
type Node struct {
	s       *Sim
	id      shardmap.NodeID
	server  string // name of the Raft server
	nonce   uint64 // random number of the process
	voter   bool
	latency time.Duration // one-way latency to all other nodes

	up    bool   // the process runs
	term  uint64 // Raft term that the node has seen
	agent *agent.Agent
	state *ack.State // state after the last applied entry

	applied int           // index of the last applied entry
	free    time.Duration // virtual time at which the leader has received the response to the last append
	due     time.Duration // virtual time of the next poll
}

// tick polls if a poll is due.
func (n *Node) tick() {
	if !n.up {
		return
	}
	if n.s.now >= n.due {
		n.poll()
	}
	n.s.after(tickInterval, n.tick)
}

// poll lets the agent act on the current state.
func (n *Node) poll() {
	n.agent.Poll(n.s.now, agent.Observation{State: n.state, Weight: 1})
	n.due = n.agent.Due(n.s.now)
}

// setState applies a state. No request runs, so it is acknowledged immediately.
func (n *Node) setState(state *ack.State) {
	n.state = state
	n.poll()
}

// emptyGate is the agent.Gate of a node without requests.
type emptyGate struct{}

// PublishLease does nothing.
func (emptyGate) PublishLease(time.Duration) bool { return false }

// PublishRouting does nothing.
func (emptyGate) PublishRouting(ack.Routing) {}

// CountRunning returns zero.
func (emptyGate) CountRunning(func(shardmap.Shard) bool) int { return 0 }

// AbortRequests does nothing.
func (emptyGate) AbortRequests(agent.AbortReason, func(shardmap.Shard) bool) {}

// apply applies all entries up to index.
func (n *Node) apply(index int) {
	if n.up && index > n.applied {
		n.applied = index
		if state := n.s.log[index-1].state; state != n.state {
			n.setState(state)
		}
	}
}

// send sends a heartbeat to the leader, if there is one.
func (n *Node) send(heartbeat ack.Heartbeat) {
	data, err := heartbeat.MarshalBinary()
	if err != nil {
		panic(err)
	}
	l := n.s.leader
	if l == nil {
		return
	}
	n.s.after(n.latencyTo(l), func() { l.receive(n, data) })
}

// isLeading reports whether the node is the leader. No node leads during an election.
func (n *Node) isLeading() bool { return n.s.leader != nil && n.s.leader.node == n }

// latencyTo returns the latency of a message to or from the leader.
func (n *Node) latencyTo(l *leaderLoop) time.Duration {
	if l.node == n {
		return 0
	}
	return n.latency
}

// handleReply handles a reply of the leader to a heartbeat.
func (n *Node) handleReply(data []byte) {
	var answer ack.Answer
	if err := answer.UnmarshalBinary(data); err != nil {
		panic(err)
	}
	if n.up {
		n.agent.HandleAnswer(n.s.now, answer)
		n.poll()
	}
}

// State returns the applied state.
func (n *Node) State() *ack.State { return n.state }
