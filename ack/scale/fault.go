package scale

import (
	"time"

	"shardway/ack"
)

const (
	// noticed is how long a broken connection and a refused redial take.
	noticed = 2 * time.Millisecond
	// election is how long voters that have the evidence take to elect another.
	election = 25 * time.Millisecond
)

// Kill ends processes at once, as kill -9 does. One of them may lead.
func (s *Sim) Kill(dead ...*Node) {
	for _, n := range dead {
		n.up = false
	}
	if !s.leader.node.up {
		s.leader = nil
		s.after(noticed+election, func() {
			s.elect(s.successor())
			s.after(noticed, func() { s.show(dead) })
		})
		return
	}
	s.after(noticed, func() { s.show(dead) })
}

// show gives the leader the evidence.
func (s *Sim) show(dead []*Node) {
	for _, n := range dead {
		s.leader.put(work{msg: ack.ConnClosed{Node: n.id, Nonce: n.nonce}})
		s.leader.put(work{msg: ack.CrashEvidence{Node: n.id, Boot: 1, Nonce: n.nonce, Began: s.now}})
	}
}

// Silence stops a process that shows nothing but that it is not heard any more.
func (s *Sim) Silence(n *Node) { n.up = false }

// Join starts a new node, which has the state from a snapshot.
func (s *Sim) Join() {
	n := s.start(len(s.nodes))
	n.apply(len(s.log))
}

// successor is the first living voter.
func (s *Sim) successor() *Node {
	for _, n := range s.Alive() {
		if n.voter {
			return n
		}
	}
	panic("no voter lives")
}
