package ack

import "time"

const (
	// hopeFor is for how long releases wait that take a lease and have no prospect of one, from
	// the first answer of a leader on. A node that stood still, or that nobody heard, for more
	// than half a second is left out by a proposal; heard again, it is given everything back by
	// the next one before anybody else has had it. What its app was to forget meanwhile would be
	// lost for nothing; and for an acknowledgement that no leader hears nobody waits.
	releaseGrace = time.Second
	// hopeAnswers is how many answers it takes, too: a second in which one of the two stood
	// still is none.
	graceAnswers = 20
)

// hope is that of a node without a prospect of a lease. The zero value is that of any other.
type leaseRecovery struct {
	active  bool
	term    uint64 // of the leader that has answered last; zero: none has
	since   time.Duration
	answers int
	expired bool
}

// answered takes an answer, and reports whether hope has ended with that.
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
