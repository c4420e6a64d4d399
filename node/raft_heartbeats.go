package node

import (
	"slices"
	"time"
)

const (
	// raftHeartbeatEvery is the interval at which a leader sends Raft heartbeats. It is slightly
	// shorter than the timers of the Raft library (see consensus.Raft.Beat), so none of them expires.
	// It is also slightly shorter than the 100 ms between the heartbeats of a node, because a voter
	// sends its own heartbeat when it receives one of Raft (see onRaftHeartbeat).
	raftHeartbeatEvery = 97 * time.Millisecond
	// maxSynchronizedVoters is the largest number of voters that send their heartbeats at the same
	// time. A lease starts at the newest echo that a quorum has returned, and the leader is part of
	// the quorum. With two or three voters, that is the echo in the heartbeat that the lease answers.
	// With more voters, the first heartbeat of a batch would always receive a lease that counts from
	// the echoes of the previous batch. Its node would have the shortest lease left when the leader hangs.
	maxSynchronizedVoters = 3
)

// sendIfDue sends Raft's heartbeats if they are due, and returns the time until the next ones.
// All responses arrive at about the same time: an idle node pays for the number of wake-ups, not for
// the work in one of them.
func (l *leading) sendIfDue() time.Duration {
	untilDue := time.Until(l.raftHeartbeatsSent.Add(raftHeartbeatEvery))
	if untilDue > raftHeartbeatEvery/16 { // a shorter wait would cost another wake-up
		return untilDue
	}
	return l.sendRaftHeartbeats()
}

// sendIfDueSoon sends Raft's heartbeats if at most half of their interval is left. The leader loop
// calls it when this node sends its own heartbeat: otherwise the two would wake the node at different times.
func (l *leading) sendIfDueSoon() {
	if time.Until(l.raftHeartbeatsSent.Add(raftHeartbeatEvery)) <= raftHeartbeatEvery/2 {
		l.sendRaftHeartbeats()
	}
}

// sendRaftHeartbeats sends Raft's heartbeats now, and returns the time until the next ones.
func (l *leading) sendRaftHeartbeats() time.Duration {
	l.raftHeartbeatsSent, l.voterHeard = time.Now(), false
	l.raft.Beat()
	return raftHeartbeatEvery
}

// onVoterHeartbeat makes this node send its own heartbeat at the first heartbeat of another voter
// after Raft's heartbeats. The leader loop calls it for each heartbeat of another node; server is the
// ID of the sender. A lease that counts from the previous echoes would be a third shorter. If no
// voter sends a heartbeat, this node uses its own timer.
func (l *leading) onVoterHeartbeat(server string) {
	if !l.voterHeard && slices.Contains(l.raft.Voters(), server) {
		l.voterHeard = true
		notify(l.n.agent.beatWithVoters)
	}
}

// onRaftHeartbeat runs the timers of this node that expire soon. Raft calls it for each heartbeat
// of the leader. A voter then also sends its own heartbeat, if that is nearly due and the cluster
// has at most maxSynchronizedVoters voters.
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
