package leader

import (
	"time"

	"shardway/ack"
)

// FailureSign is what has shown a leader that a node has failed.
type FailureSign uint8

// The signs of a failure.
const (
	SignHeartbeat       FailureSign = iota + 1 // missing heartbeats
	SignRefused                                // a refused connection
	SignGossip                                 // Serf reported that the node failed or left
	SignReports                                // most other members could not connect to it
	SignAcknowledgement                        // a missing acknowledgement, or a log that is behind
	SignOperator                               // the statement of an operator
)

// String returns the sign as events spell it.
func (s FailureSign) String() string {
	switch s {
	case SignHeartbeat:
		return "heartbeat"
	case SignRefused:
		return "refused-connection"
	case SignGossip:
		return "serf"
	case SignReports:
		return "members"
	case SignAcknowledgement:
		return "acknowledgement"
	case SignOperator:
		return "operator"
	}
	return "unknown"
}

// recordGossipStatus records whether gossip reports that the node failed or left.
func (m *member) recordGossipStatus(now time.Duration, failed bool) {
	switch {
	case !failed:
		m.gossipFailedAt = -1
	case m.gossipFailedAt < 0:
		m.gossipFailedAt = now
	}
}

// firstSign returns the earliest sign of the failure for which the node is excluded.
func (m *member) firstSign(cause ack.DropCause) FailureSign {
	switch cause {
	case ack.CauseMissedAck, ack.CauseBehind:
		return SignAcknowledgement
	case ack.CauseRemoved, ack.CauseMarkedFailed:
		return SignOperator
	case ack.CauseSilent, ack.CauseCrashed, ack.CauseUnreachable:
	}
	sign, first := SignHeartbeat, time.Duration(-1)
	observe := func(candidate FailureSign, at time.Duration) {
		if at >= 0 && (first < 0 || at < first) {
			sign, first = candidate, at
		}
	}
	observe(SignHeartbeat, m.silentAt)
	if m.hasCrashed() {
		observe(SignRefused, m.crashSeenAt)
	}
	observe(SignGossip, m.gossipFailedAt)
	observe(SignReports, m.reportedSince)
	return sign
}
