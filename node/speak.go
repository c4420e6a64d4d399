package node

import (
	"slices"
	"time"
)

const (
	// speakEvery is how often Raft's heartbeats leave a leader, a little sooner than nodes beat that
	// beat every 100 ms, for who hears one beats with it (see heardLeader); and how often it beats
	// with the first of theirs that it hears. At rest every second of Raft's does: two that beat
	// together once are still together at the next one, and the library's own would leave no sooner
	// (see consensus.Raft.Beat).
	speakEvery = 97 * time.Millisecond
	restEvery  = 2 * speakEvery
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
	left := l.speaksIn()
	if left > speakEvery/16 { // it would be woken a second time for what is left
		return left
	}
	l.send()
	return l.speaksIn()
}

// speaksIn is how long it is until Raft's heartbeats are due. A node that is busy, or on a machine that
// is, may come late each time.
func (l *leading) speaksIn() time.Duration {
	every := restEvery
	if l.n.pulse.Busy() {
		every = speakEvery
	}
	return time.Until(l.spoke.Add(every))
}

// follow has Raft's heartbeats leave with a heartbeat of this node's own, if they are due soon:
// each of the two would else keep to a time of its own.
func (l *leading) follow() {
	if l.speaksIn() <= speakEvery/2 {
		l.send()
	}
}

func (l *leading) send() {
	l.spoke, l.echoed = time.Now(), 0
	l.raft.Beat()
}

// echo is told of each heartbeat of another node. By the first one of a voter after Raft's
// heartbeats, and by the first after each speakEvery more, this node beats, too: what is granted by
// echoes of the time before has a third less left. Without any it beats at a time of its own.
func (l *leading) echo(server string) {
	if round := 1 + int(time.Since(l.spoke)/speakEvery); round > l.echoed && slices.Contains(l.raft.Voters(), server) {
		l.echoed = round
		hint(l.n.agent.echo)
		l.n.pulse.Early()
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
