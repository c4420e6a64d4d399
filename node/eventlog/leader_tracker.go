package eventlog

import (
	"sync"
	"time"

	"shardway/event"
)

// Reasons of the event that a leader was lost.
const (
	// LostQuorum means that the leader had no contact to a quorum. Only the leader itself reports it.
	LostQuorum = "quorum-lost"
	// LostSteppedDown means that the leader transferred its leadership. Only the leader itself reports it.
	LostSteppedDown = "stepped-down"
	// LostHigherTerm means that another server started an election in a higher term.
	LostHigherTerm = "higher-term"
	// LostShutdown means that the leader stops or restarts.
	LostShutdown = "shutdown"
	// LostDiskStalled means that a write to the disk of the leader stalled. Only the leader itself reports it.
	LostDiskStalled = "disk-stalled"
	// LostUnreachable means that the reporting node received no messages of the leader any more, or that the process of
	// the leader has ended.
	LostUnreachable = "unreachable"
)

// LostReasons returns all reasons of the event that a leader was lost.
func LostReasons() []string {
	return []string{LostQuorum, LostSteppedDown, LostHigherTerm, LostShutdown, LostDiskStalled, LostUnreachable}
}

// LeaderEnd describes the end of a leadership, as one node sees it.
type LeaderEnd struct {
	// IsSelf means that the reporting node was the leader.
	IsSelf bool
	// IsStopping means that the leader stops or restarts.
	IsStopping bool
	// HasSteppedDown means that the reporting node asked another server to take over its leadership.
	HasSteppedDown bool
	// IsDiskStalled means that a write to the disk of the reporting node stalls.
	IsDiskStalled bool
	// HasHigherTerm means that Raft's term is higher than the term of the leader.
	HasHigherTerm bool
	// HasContact means that the reporting node received messages of the leader recently, and has not started an election
	// because the leader did not respond or its process has ended.
	HasContact bool
}

// Reason returns the reason of the event that the leader was lost.
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
	case e.HasContact: // only an election in a higher term ends a leadership that still works
		return LostHigherTerm
	}
	return LostUnreachable
}

// LeaderTracker records changes of the leader. Its methods may be called from any goroutine.
type LeaderTracker struct {
	ring *event.Ring
	// end describes the end of the leadership of a node in a term. hasHigherTerm means that Raft has a higher term now.
	end func(leader string, term uint64, hasHigherTerm bool) LeaderEnd

	// mu protects the following fields, which describe the most recent leader event.
	mu     sync.Mutex
	leader string
	term   uint64
	lostAt time.Time // when this node noticed the loss of its own leadership; zero means that it noticed none
}

// ownLossDelay is how long the event of the loss of the own leadership waits for a higher term. A leader that learns of a
// higher term stops leading before it has written that term to its disk.
const ownLossDelay = 100 * time.Millisecond

// NewLeaderTracker returns a LeaderTracker that writes to ring. end describes the end of the leadership of a node in a
// term, for the reason of the event; hasHigherTerm means that Raft has a higher term now.
func NewLeaderTracker(ring *event.Ring, end func(leader string, term uint64, hasHigherTerm bool) LeaderEnd) *LeaderTracker {
	return &LeaderTracker{ring: ring, end: end}
}

// Observe records a change of the leader or the term, as far as this node knows. currentTerm returns
// Raft's term, and currentLeader the node that leads; empty means that there is no leader.
func (t *LeaderTracker) Observe(currentTerm func() uint64, currentLeader func() string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	term := currentTerm()
	leader := currentLeader()
	if currentTerm() != term { // leader may belong to another term; Raft reports that change, too
		return
	}
	if t.leader != "" && leader != t.leader {
		end := t.end(t.leader, t.term, term > t.term)
		reason := end.Reason()
		if reason == LostQuorum && leader == "" { // a higher term may follow
			if t.lostAt.IsZero() {
				t.lostAt = time.Now()
			}
			if time.Since(t.lostAt) < ownLossDelay {
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
