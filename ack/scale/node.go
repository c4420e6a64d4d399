package scale

import (
	"time"

	"shardway/ack"
	"shardway/internal/clock"
	"shardway/shardmap"
)

// tickEvery is how often nodes and leader are told the time, as those of package node.
const tickEvery = clock.EveryBeat

// Node is one process: its machines, and what it has applied.
type Node struct {
	s      *Sim
	id     shardmap.NodeID
	server string
	voter  bool
	up     bool
	nonce  uint64
	term   uint64
	// latency is that of its way to everybody else.
	latency time.Duration

	machine *ack.Agent
	state   *ack.State
	// applied is the index of the last entry applied; free is when it has answered
	// the last append.
	applied int
	free    time.Duration
	due     time.Duration // when it is to look next
}

// tick is the node's look at the time.
func (n *Node) tick() {
	if !n.up {
		return
	}
	if n.s.now >= n.due {
		n.look()
	}
	n.s.after(tickEvery, n.tick)
}

func (n *Node) look() {
	n.machine.Poll(n.s.now, ack.Observation{State: n.state, Weight: 1})
	n.due = n.machine.Due(n.s.now)
}

// take applies a state: nothing runs, so it is acknowledged at once.
func (n *Node) take(st *ack.State) {
	n.state = st
	n.look()
}

// idle is the gate of a node without requests.
type idle struct{}

// Lease and the others have nobody to tell.
func (idle) Lease(time.Duration) bool { return false }

// Route see Lease.
func (idle) Route(ack.Routing) {}

// Running see Lease.
func (idle) Running(func(shardmap.Shard) bool) int { return 0 }

// Cut see Lease.
func (idle) Cut(ack.CutReason, func(shardmap.Shard) bool) {}

// apply takes all entries up to an index.
func (n *Node) apply(index int) {
	if n.up && index > n.applied {
		n.applied = index
		if st := n.s.log[index-1].state; st != n.state {
			n.take(st)
		}
	}
}

// send puts a heartbeat on the wire.
func (n *Node) send(hb ack.Heartbeat) {
	b, err := hb.MarshalBinary()
	if err != nil {
		panic(err)
	}
	l := n.s.leader
	if l == nil {
		return
	}
	n.s.after(n.wire(l), func() { l.receive(n, b) })
}

// wire is how long a message to or from the leader takes.
func (n *Node) wire(l *leader) time.Duration {
	if l.node == n {
		return 0
	}
	return n.latency
}

// answered takes an answer.
func (n *Node) answered(b []byte) {
	var a ack.Answer
	if err := a.UnmarshalBinary(b); err != nil {
		panic(err)
	}
	if n.up {
		n.machine.Answered(n.s.now, a)
		n.look()
	}
}

// State is what the node has applied.
func (n *Node) State() *ack.State { return n.state }
