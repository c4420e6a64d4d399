package eventlog

import (
	"sync"

	"shardway/event"
)

// LeaderTracker records changes of the leader. Its methods may be called from any goroutine.
type LeaderTracker struct {
	ring *event.Ring

	// mu protects the following fields, which describe the most recent leader event.
	mu     sync.Mutex
	leader string
	term   uint64
}

// NewLeaderTracker returns a LeaderTracker that writes to ring.
func NewLeaderTracker(ring *event.Ring) *LeaderTracker { return &LeaderTracker{ring: ring} }

// Observe records a change of the leader or the term, as far as this node knows. currentTerm returns
// Raft's term, and currentLeader the node that leads; empty means that there is no leader.
func (t *LeaderTracker) Observe(currentTerm func() uint64, currentLeader func() string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	term := currentTerm()
	leader := currentLeader()
	switch {
	case currentTerm() != term: // leader may belong to another term; Raft reports that change, too
	case leader == "" && t.leader != "":
		t.ring.Add(event.Event{Kind: event.LeaderLost, Node: t.leader, Term: term})
		t.leader = ""
	case leader != "" && (leader != t.leader || term != t.term):
		t.ring.Add(event.Event{Kind: event.LeaderElected, Node: leader, Term: term})
		t.leader, t.term = leader, term
	}
}
