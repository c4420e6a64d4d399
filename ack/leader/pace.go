package leader

import (
	"time"

	"shardway/ack"
)

const (
	// minBatchDelay is how long a leader batches the reasons for a new map.
	minBatchDelay = 20 * time.Millisecond
	// freshHeartbeats is the age, in heartbeats, up to which an echoed answer proves that both
	// directions of the link work.
	freshHeartbeats = 5
	// requiredFreshEchoes is the number of consecutive heartbeats with a fresh echo that make a node eligible.
	requiredFreshEchoes = 3
	// minBarrierTime is how long a new leader may take to apply its barrier, even with a short
	// DeadAfter. One write may take a second on a busy disk, and leaders that step down
	// earlier would replace each other without end.
	minBarrierTime = 2500 * time.Millisecond
)

// maxEchoAge returns the maximum age of a fresh answer.
func maxEchoAge(pace ack.Pace) time.Duration { return freshHeartbeats * pace.Heartbeat }
