package node

import (
	"slices"

	"shardway/internal/chanutil"
)

const (
	// maxSynchronizedVoters is the largest number of voters that send their heartbeats at the same
	// time. A lease starts at the newest echo that a quorum has returned, and the leader is part of
	// the quorum. With two or three voters, that is the echo in the heartbeat that the lease answers.
	// With more voters, the first heartbeat of a batch would always receive a lease that counts from
	// the echoes of the previous batch. Its node would have the shortest lease left when the leader hangs.
	maxSynchronizedVoters = 3
)

// onRaftHeartbeat runs the timers of this node that expire soon. Raft calls it for each heartbeat
// of the leader. A voter then also sends its own heartbeat, if that is nearly due and the cluster
// has at most maxSynchronizedVoters voters.
func (n *Node) onRaftHeartbeat() {
	select {
	case <-n.raftOpen:
	default:
		return
	}
	if voters := n.raft.Voters(); len(voters) <= maxSynchronizedVoters && slices.Contains(voters, n.serverID) {
		chanutil.Notify(n.agent.heartbeatIfNearlyDue)
	}
	n.scheduler.TickEarly()
}
