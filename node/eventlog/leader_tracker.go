package eventlog

import (
	"sync"
	"time"

	"shardway/event"
)

// Reasons of the event that a leader was lost.
const (
	// LostQuorum means that the leader lost contact with a quorum. Only the leader itself reports it.
	LostQuorum = "quorum-lost"
	// LostSteppedDown means that the leader transferred its leadership. Only the leader itself reports it.
	LostSteppedDown = "stepped-down"
	// LostHigherTerm means that another server started an election in a higher term.
	LostHigherTerm = "higher-term"
	// LostShutdown means that the leader stopped or restarted.
	LostShutdown = "shutdown"
	// LostDiskStalled means that a disk write on the leader stalled. Only the leader itself reports it.
	LostDiskStalled = "disk-stalled"
	// LostUnreachable means that the reporting node stopped receiving messages from the leader, or that the leader's
	// process exited.
	LostUnreachable = "unreachable"
)

// LostReasons returns every possible Reason of an event.LeaderLost.
func LostReasons() []string {
	return []string{LostQuorum, LostSteppedDown, LostHigherTerm, LostShutdown, LostDiskStalled, LostUnreachable}
}

// LeaderEnd describes how a leadership ended, as seen by one node.
type LeaderEnd struct {
	// IsSelf is set if the reporting node was the leader.
	IsSelf bool
	// IsStopping is set if the leader is stopping or restarting.
	IsStopping bool
	// HasSteppedDown is set if the reporting node asked another server to take over its leadership.
	HasSteppedDown bool
	// IsDiskStalled is set if a disk write on the reporting node has stalled.
	IsDiskStalled bool
	// HasHigherTerm is set if Raft's term is higher than the leader's.
	HasHigherTerm bool
	// HeardRecently is set if the reporting node heard from the leader recently, and did not itself call an
	// election because the leader was silent or its process had exited.
	HeardRecently bool
}

// Reason returns the Reason for the event.LeaderLost.
func (e LeaderEnd) Reason() string {
	switch {
	case e.IsStopping:
		return LostShutdown
	case e.IsSelf && e.HasSteppedDown:
		return LostSteppedDown
	case e.IsSelf && e.IsDiskStalled:
		return LostDiskStalled
	case e.IsSelf && e.HasHigherTerm:
		return LostHigherTerm
	case e.IsSelf:
		return LostQuorum
	case e.HeardRecently: // only an election in a higher term ends a leadership that still works
		return LostHigherTerm
	}
	return LostUnreachable
}

// LeaderTracker records leader changes. Its methods may be called from any goroutine.
type LeaderTracker struct {
	ring *event.Ring
	// describeEnd returns how the leadership of a node in a term ended. hasHigherTerm is set if Raft has a higher term
	// now.
	describeEnd func(leader string, term uint64, hasHigherTerm bool) LeaderEnd

	// mu protects the following fields, which describe the most recent leader event.
	mu     sync.Mutex
	leader string
	term   uint64
	lostAt time.Time // when this node noticed that it lost its own leadership; zero if it has not
}

// lostQuorumDelay is how long a node waits for a higher term before it reports LostQuorum. A leader that learns of a
// higher term steps down before it has written that term to disk. Without the delay, LostQuorum would be reported
// instead of LostHigherTerm.
const lostQuorumDelay = 100 * time.Millisecond

// NewLeaderTracker returns a LeaderTracker that writes to ring. describeEnd returns how the leadership of a node in a
// term ended; hasHigherTerm is set if Raft has a higher term now.
func NewLeaderTracker(ring *event.Ring, describeEnd func(leader string, term uint64, hasHigherTerm bool) LeaderEnd) *LeaderTracker {
	return &LeaderTracker{ring: ring, describeEnd: describeEnd}
}

// Observe records a change of leader or term, as known to this node. currentTerm returns Raft's term, and currentLeader
// the leading node, or an empty string if there is none.
func (t *LeaderTracker) Observe(currentTerm func() uint64, currentLeader func() string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	term := currentTerm()
	leader := currentLeader()
	if currentTerm() != term { // leader may belong to another term; Raft reports that change, too
		return
	}
	if t.leader != "" && leader != t.leader {
		end := t.describeEnd(t.leader, t.term, term > t.term)
		reason := end.Reason()
		if reason == LostQuorum && leader == "" { // Raft may still report a higher term, which is the true reason
			if t.lostAt.IsZero() {
				t.lostAt = time.Now()
			}
			if time.Since(t.lostAt) < lostQuorumDelay {
				return
			}
		}
		t.ring.Add(event.Event{Kind: event.LeaderLost, Node: t.leader, Term: term, Reason: reason})
		t.leader = ""
	}
	t.lostAt = time.Time{}
	if leader != "" && (leader != t.leader || term != t.term) {
		t.ring.Add(event.Event{Kind: event.LeaderElected, Node: leader, Term: term})
		t.leader, t.term = leader, term
	}
}
