package agent

import "time"

const (
	// releaseGrace is how long releases are postponed while the node cannot get a lease, counted
	// from the first answer of a leader. After a pause or disconnection of more than half a second,
	// one map drops the node and the next map adds it again, before another node has served its
	// shards. If the app discarded its state in between, that state would be lost needlessly. While
	// no leader answers, no acknowledgement is needed.
	releaseGrace = time.Second
	// graceAnswers is the number of responses that the grace period also requires, so that time in
	// which this node or the leader was paused does not count.
	graceAnswers = 20
)

// leaseRecovery measures how long a node has been unable to get a lease. The zero value means that
// it is able to.
type leaseRecovery struct {
	waitsForLease bool
	leaderTerm    uint64 // of the last leader that answered; zero means none
	firstAnswerAt time.Duration
	answerCount   int
	graceExpired  bool
}

// setWaitsForLease restarts the measurement unless the node is unable to get a lease.
func (lr *leaseRecovery) setWaitsForLease(waits bool) {
	lr.waitsForLease = waits
	if !waits {
		*lr = leaseRecovery{}
	}
}

// handleAnswer counts a response. It returns true if the grace period ends with it.
func (lr *leaseRecovery) handleAnswer(now time.Duration, term uint64) (ended bool) {
	if !lr.waitsForLease || lr.graceExpired || term < lr.leaderTerm {
		return false
	}
	if term > lr.leaderTerm {
		lr.leaderTerm, lr.firstAnswerAt, lr.answerCount = term, now, 0
	}
	lr.answerCount++
	lr.graceExpired = lr.answerCount > graceAnswers && now-lr.firstAnswerAt >= releaseGrace
	return lr.graceExpired
}
