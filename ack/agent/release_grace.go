package agent

import "time"

const (
	// releaseGrace is how long releases are postponed while the node cannot get a lease,
	// counted from the first answer of a leader. A node that paused or was unreachable for
	// more than half a second is dropped by one map and added again by the next, before
	// another node has served its shards. Discarding the state of the app in between would
	// lose it for nothing. While no leader answers, no acknowledgement is needed.
	releaseGrace = time.Second
	// graceAnswers is the number of answers that the grace period also requires, so that a
	// second in which this node or the leader was paused does not count.
	graceAnswers = 20
)

// leaseRecovery measures how long a node has been unable to get a lease. The zero value means
// that it is able.
type leaseRecovery struct {
	active  bool
	term    uint64 // of the last leader that answered; zero means none
	since   time.Duration
	answers int
	expired bool
}

// answerReceived counts an answer. It returns true if the grace period ends with it.
func (r *leaseRecovery) answerReceived(now time.Duration, term uint64) (ended bool) {
	if !r.active || r.expired || term < r.term {
		return false
	}
	if term > r.term {
		r.term, r.since, r.answers = term, now, 0
	}
	r.answers++
	r.expired = r.answers > graceAnswers && now-r.since >= releaseGrace
	return r.expired
}
