package node

import (
	"slices"
	"time"
)

const (
	// speakEvery is how often Raft's heartbeats leave a leader: a little sooner than its library
	// would send the first (see consensus.Raft.Beat), and than nodes beat that beat every 100 ms,
	// for who hears one beats with it (see heardLeader).
	raftHeartbeatEvery = 97 * time.Millisecond
	// votersTogether is how many voters there may be for those to beat at one time. A lease
	// counts from the echo that a quorum gave last, the leader among it: of two or three that is
	// the one of the heartbeat itself, which the lease answers. Of more, the first of those that
	// come together would be given one by echoes of the time before, always, and have the least
	// that there is left when its leader hangs.
	maxSynchronizedVoters = 3
)

// speak has Raft's heartbeats leave, if they are due, and returns within what time they are
// again. Whatever comes of them comes back at one time: a node at rest pays for wake-ups, and
// not for what they are for.
func (l *leading) sendIfDue() time.Duration {
	untilDue := time.Until(l.raftHeartbeatsSent.Add(raftHeartbeatEvery))
	if untilDue > raftHeartbeatEvery/16 { // it would be woken a second time for what is left
		return untilDue
	}
	return l.sendRaftHeartbeats()
}

// follow has Raft's heartbeats leave with a heartbeat of this node's own, if they are due soon:
// each of the two would else keep to a time of its own.
func (l *leading) sendIfDueSoon() {
	if time.Until(l.raftHeartbeatsSent.Add(raftHeartbeatEvery)) <= raftHeartbeatEvery/2 {
		l.sendRaftHeartbeats()
	}
}

func (l *leading) sendRaftHeartbeats() time.Duration {
	l.raftHeartbeatsSent, l.voterHeard = time.Now(), false
	l.raft.Beat()
	return raftHeartbeatEvery
}

// echo is told of each heartbeat of another node. By the first one of a voter after Raft's
// heartbeats this node beats, too: what is granted by echoes of the time before has a third
// less left. Without any it beats at a time of its own.
func (l *leading) onVoterHeartbeat(server string) {
	if !l.voterHeard && slices.Contains(l.raft.Voters(), server) {
		l.voterHeard = true
		notify(l.n.agent.beatWithVoters)
	}
}

// heardLeader is told of each of Raft's heartbeats: what is nearly due is done now.
func (n *Node) onRaftHeartbeat() {
	select {
	case <-n.raftOpen:
	default:
		return
	}
	if voters := n.raft.Voters(); len(voters) <= maxSynchronizedVoters && slices.Contains(voters, n.server) {
		notify(n.agent.beatIfNearlyDue)
	}
	n.pulse.Early()
}
