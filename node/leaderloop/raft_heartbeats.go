package leaderloop

import "time"

const (
	// raftHeartbeatInterval is the interval at which a leader sends Raft heartbeats. It is slightly
	// shorter than the timers of the Raft library (see consensus.Raft.SendHeartbeat), so none of them expires.
	// It is also slightly shorter than the 100 ms between the heartbeats of a node, because a voter
	// sends its own heartbeat when it receives one of Raft (see onRaftHeartbeat).
	raftHeartbeatInterval = 97 * time.Millisecond
)

// sendRaftHeartbeatsIfDue sends Raft's heartbeats if they are due, and returns the time until the next ones.
// All responses arrive at about the same time: an idle node pays for the number of wake-ups, not for
// the work in one of them.
func (l *Loop) sendRaftHeartbeatsIfDue() time.Duration {
	untilDue := time.Until(l.raftHeartbeatsSentAt.Add(raftHeartbeatInterval))
	if untilDue > raftHeartbeatInterval/16 { // a shorter wait would cost another wake-up
		return untilDue
	}
	return l.sendRaftHeartbeats()
}

// sendRaftHeartbeatsIfDueSoon sends Raft's heartbeats if at most half of their interval is left. The leader loop
// calls it when this node sends its own heartbeat: otherwise the two would wake the node at different times.
func (l *Loop) sendRaftHeartbeatsIfDueSoon() {
	if time.Until(l.raftHeartbeatsSentAt.Add(raftHeartbeatInterval)) <= raftHeartbeatInterval/2 {
		l.sendRaftHeartbeats()
	}
}

// sendRaftHeartbeats sends Raft's heartbeats now, and returns the time until the next ones. It also
// makes the node send its own heartbeat if that is nearly due. The two intervals differ by 3 ms, so
// without this they would drift apart and wake the leader at different times.
func (l *Loop) sendRaftHeartbeats() time.Duration {
	l.raftHeartbeatsSentAt = time.Now()
	l.raft.SendHeartbeat()
	if l.options.OnRaftHeartbeats != nil {
		l.options.OnRaftHeartbeats()
	}
	return raftHeartbeatInterval
}
