package scale

import (
	"time"

	"shardway/ack"
	"shardway/shardmap"
)

// tickEvery is how often nodes and leader are told the time.
const tickEvery = 10 * time.Millisecond

// Node is one process: its machines, and what it has applied.
type Node struct {
	s      *Sim
	id     shardmap.NodeID
	server string
	voter  bool
	up     bool
	nonce  uint64
	term   uint64

	holder   *ack.Holder
	follower *ack.Follower
	state    *ack.State
	nextBeat time.Duration
	// applied is the index of the last entry applied; free is when it has answered
	// the last append.
	applied int
	free    time.Duration
}

// tick is the node's look at the time.
func (n *Node) tick() {
	if !n.up {
		return
	}
	n.holder.Tick(n.s.now)
	if n.s.now >= n.nextBeat {
		n.beat()
	}
	n.s.after(tickEvery, n.tick)
}

// take applies a state: nothing runs, so it is acknowledged at once.
func (n *Node) take(st *ack.State) {
	n.state = st
	n.follower.Applied(n.s.now, st)
	if e := n.follower.Draining(); e != 0 && n.follower.Drained(e) {
		n.beat()
	}
}

// apply takes all entries up to an index.
func (n *Node) apply(index int) {
	if n.up && index > n.applied {
		n.applied = index
		if st := n.s.log[index-1].state; st != n.state {
			n.take(st)
		}
	}
}

// beat sends a heartbeat over the wire.
func (n *Node) beat() {
	n.nextBeat = n.s.now + n.s.pace.Heartbeat
	number, echo := n.holder.Beat(n.s.now)
	hb := ack.Heartbeat{
		Node: n.id, Server: n.server, Boot: 1, Nonce: n.nonce, Number: number, Echo: echo, Term: n.term,
		Applied: n.state.Committed().Epoch(), Acked: n.follower.Acked(), Weight: 1,
	}
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
	return n.s.o.Latency
}

// answered takes an answer.
func (n *Node) answered(b []byte) {
	var a ack.Answer
	if err := a.UnmarshalBinary(b); err != nil {
		panic(err)
	}
	if n.up {
		n.holder.Answered(n.s.now, n.term, a)
	}
}

// State is what the node has applied.
func (n *Node) State() *ack.State { return n.state }
