package leader

import (
	"time"

	"shardway/ack"
	"shardway/shardmap"
)

// inputs are the values on which all decisions of one step depend, besides the node in question.
// The Leader passes them to its parts, so no part calls the Leader.
type inputs struct {
	now       time.Duration
	state     *ack.State // the newest state of this node's log
	term      uint64     // the Raft term of this leader
	electedAt time.Duration
	pace      ack.Pace
	// timing is the timing by which the leader waits: the longest one for which leases may exist.
	timing ack.Timing
}

// ownRoundOpen reports whether a proposal of this term is open.
func (in inputs) ownRoundOpen() bool {
	return in.state.HasOpenProposal() && in.state.ProposedTerm() == in.term
}

// isNewLeader reports whether the election was less than dead-after ago. Until then, a live node
// may not have sent its first heartbeat to this leader.
func (in inputs) isNewLeader() bool { return in.now-in.electedAt < in.timing.DeadAfter }

// isMember reports whether the node is in the last map of the log, proposed or committed.
func (in inputs) isMember(id shardmap.NodeID) bool { return in.state.Proposed().IsMember(id) }

// isRestarting reports whether the node restarts in place. It then remains a member regardless of
// its heartbeats, unless an operator removes it.
func (in inputs) isRestarting(node *member) bool {
	return in.state.Restarting(node.id) && !node.removed
}

// isMarkedFailed reports whether an operator has marked the node as failed. Such a node gets no shards.
// The mark does not prove that its process has stopped, so the rules of a takeover do not change.
func (in inputs) isMarkedFailed(node *member) bool { return in.state.Policy().MarkedFailed[node.id] }
