package agent

import "time"

const (
	// releaseGrace is how long releases are postponed while the node cannot get a lease,
	// counted from the first answer of a leader. After a pause or disconnection of more than
	// half a second, one map drops the node and the next map adds it again, before another node
	// has served its shards. If the app discarded its state in between, that state would be lost
	// without need. While no leader answers, no acknowledgement is needed.
	releaseGrace = time.Second
	// graceAnswers is the number of responses that the grace period also requires, so that a
	// second in which this node or the leader was paused does not count.
	graceAnswers = 20
)

// leaseRecovery measures how long a node has been unable to get a lease. The zero value means
// that it is able.
type leaseRecovery struct {
	waitsForLease bool
	leaderTerm    uint64 // of the last leader that answered; zero means none
	firstAnswerAt time.Duration
	answerCount   int
	graceExpired  bool
}

// setWaitsForLease restarts the measurement unless the node is unable to get a lease.
func (r *leaseRecovery) setWaitsForLease(waits bool) {
	r.waitsForLease = waits
	if !waits {
		*r = leaseRecovery{}
	}
}

// answerReceived counts a response. It returns true if the grace period ends with it.
func (r *leaseRecovery) answerReceived(now time.Duration, term uint64) (ended bool) {
	if !r.waitsForLease || r.graceExpired || term < r.leaderTerm {
		return false
	}
	if term > r.leaderTerm {
		r.leaderTerm, r.firstAnswerAt, r.answerCount = term, now, 0
	}
	r.answerCount++
	r.graceExpired = r.answerCount > graceAnswers && now-r.firstAnswerAt >= releaseGrace
	return r.graceExpired
}
