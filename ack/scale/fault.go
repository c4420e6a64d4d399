package scale

import (
	"time"

	"shardway/ack/leader"
)

const (
	// detectionTime is the time until a broken connection and a refused redial are detected.
	detectionTime = 2 * time.Millisecond
	// electionTime is the duration of an election among voters with crash evidence.
	electionTime = 25 * time.Millisecond
)

// Kill ends processes at once, like kill -9. One of them may be the leader.
func (s *Sim) Kill(dead ...*Node) {
	for _, n := range dead {
		n.up = false
	}
	if !s.leader.node.up {
		s.leader = nil
		s.after(detectionTime+electionTime, func() {
			s.elect(s.successor())
			s.after(detectionTime, func() { s.reportCrash(dead) })
		})
		return
	}
	s.after(detectionTime, func() { s.reportCrash(dead) })
}

// reportCrash gives the leader crash evidence.
func (s *Sim) reportCrash(dead []*Node) {
	for _, n := range dead {
		s.leader.enqueue(input{msg: leader.ConnClosed{Node: n.id, Nonce: n.nonce}})
		s.leader.enqueue(input{msg: leader.CrashEvidence{Node: n.id, Boot: 1, Nonce: n.nonce, RedialStartedAt: s.now}})
	}
}

// Silence stops a process without closing its connections.
func (s *Sim) Silence(n *Node) { n.up = false }

// Join starts a new node with the state of a snapshot.
func (s *Sim) Join() {
	n := s.start(len(s.nodes))
	n.apply(len(s.log))
}

// successor returns the first live voter.
func (s *Sim) successor() *Node {
	for _, n := range s.Alive() {
		if n.voter {
			return n
		}
	}
	panic("no voter lives")
}
