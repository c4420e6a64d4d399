package node

import "time"

// speakEvery is how often Raft's heartbeats leave a leader: a little sooner than its library
// would send the first (see consensus.Raft.Beat), and than nodes beat that beat every 100 ms, for
// who hears one beats with it (see heardLeader).
const speakEvery = 97 * time.Millisecond

// speak has Raft's heartbeats leave, and this node beat with them, if that is due, and returns
// within what time it is again. Whatever comes of it comes back at one time: a node at rest
// pays for wake-ups, and not for what they are for.
func (l *leading) speak() time.Duration {
	left := time.Until(l.spoke.Add(speakEvery))
	if left > speakEvery/16 { // it would beat a second time for what is left
		return left
	}
	hint(l.n.agent.early)
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
	l.spoke = time.Now()
	l.raft.Beat()
	return speakEvery
}

// heardLeader is told of each of Raft's heartbeats: what is nearly due is done now.
func (n *Node) heardLeader() {
	hint(n.agent.early)
	n.pulse.Early()
}
