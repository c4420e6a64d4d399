package node

import "shardway/internal/chanutil"

// onRaftHeartbeat runs the timers of this node that expire soon. Raft calls it for each heartbeat
// of the leader. A voter then also sends its own heartbeat, if that is nearly due. Leader and
// voter then wake up once for both messages.
func (n *Node) onRaftHeartbeat() {
	select {
	case <-n.raftOpen:
	default:
		return
	}
	if n.view.IsVoter() {
		chanutil.Notify(n.agent.heartbeatIfNearlyDue)
	}
	n.scheduler.TickEarly()
}
