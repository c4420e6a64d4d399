package node

import (
	"slices"
	"time"
)

const (
	// speakEvery is how often Raft's heartbeats leave a leader: a little sooner than its library
	// would send the first (see consensus.Raft.Beat), and than nodes beat that beat every 100 ms,
	// for who hears one beats with it (see heardLeader).
	speakEvery = 97 * time.Millisecond
	// votersTogether is how many voters there may be for those to beat at one time. A lease
	// counts from the echo that a quorum gave last, the leader among it: of two or three that is
	// the one of the heartbeat itself, which the lease answers. Of more, the first of those that
	// come together would be given one by echoes of the time before, always, and have the least
	// that there is left when its leader hangs.
	votersTogether = 3
)

// speak has Raft's heartbeats leave, if they are due, and returns within what time they are
// again. Whatever comes of them comes back at one time: a node at rest pays for wake-ups, and
// not for what they are for.
func (l *leading) speak() time.Duration {
	left := time.Until(l.spoke.Add(speakEvery))
	if left > speakEvery/16 { // it would be woken a second time for what is left
		return left
	}
	return l.send()
}

// follow has Raft's heartbeats leave with a heartbeat of this node's own, if they are due soon:
// each of the two would else keep to a time of its own.
func (l *leading) follow() {
	if time.Until(l.spoke.Add(speakEvery)) <= speakEvery/2 {
		l.send()
	}
}

func (l *leading) send() time.Duration {
	l.spoke, l.echoed = time.Now(), false
	l.raft.Beat()
	return speakEvery
}

// echo is told of each heartbeat of another node. By the first one of a voter after Raft's
// heartbeats this node beats, too: what is granted by echoes of the time before has a third
// less left. Without any it beats at a time of its own.
func (l *leading) echo(server string) {
	if !l.echoed && slices.Contains(l.raft.Voters(), server) {
		l.echoed = true
		hint(l.n.agent.echo)
	}
}

// heardLeader is told of each of Raft's heartbeats: what is nearly due is done now.
func (n *Node) heardLeader() {
	select {
	case <-n.raftOpen:
	default:
		return
	}
	if voters := n.raft.Voters(); len(voters) <= votersTogether && slices.Contains(voters, n.server) {
		hint(n.agent.early)
	}
	n.pulse.Early()
}
