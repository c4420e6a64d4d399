package leaderloop

import (
	"time"

	"shardway/shardmap"
)

// A nudge is a log entry without content, which the leader appends so that its followers receive the commit
// index immediately. Without nudges, the Raft library sends the commit index only every few seconds, see
// consensus.Raft.PropagateCommit. The leader nudges when a process sends its first heartbeat, and when a process lacks
// a committed map. It repeats a nudge after nudgeRetryPause, doubles the pause each time, and nudges up to
// maxNudges times for the same map.
const (
	nudgeRetryPause = 500 * time.Millisecond
	maxNudges       = 6
)

// nudges contains the last nudge for each node. Only the leader loop uses it.
type nudges map[shardmap.NodeID]nudge

// nudge is the last nudge because of the heartbeats of one node.
type nudge struct {
	missing  missingMap
	sentAt   time.Time // time of the last nudge
	attempts int       // nudges for this lag
}

// missingMap identifies a process and the committed map that it lacks.
type missingMap struct {
	nonce uint64
	epoch shardmap.Epoch
}

// shouldNudge reports whether the leader must nudge because of a heartbeat of node, and records the nudge. Each
// nudge writes a log entry. lacksMap is set if the process lacks the committed map. A process that has just started
// is nudged in any case, because it may lack other entries.
func (n nudges) shouldNudge(node shardmap.NodeID, missing missingMap, lacksMap bool, now time.Time) bool {
	last, known := n[node]
	switch {
	case !known || last.missing.nonce != missing.nonce:
		last.attempts = 0
	case !lacksMap:
		return false
	case last.missing != missing:
		last.attempts = 0
	case last.attempts >= maxNudges || now.Sub(last.sentAt) < nudgeRetryPause<<max(last.attempts-1, 0):
		return false
	}
	n[node] = nudge{missing, now, last.attempts + 1}
	return true
}
