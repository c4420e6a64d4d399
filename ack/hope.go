package ack

import "time"

const (
	// hopeFor is for how long releases wait that take a lease and have no prospect of one, from
	// the first answer of a leader on. A node that stood still, or that nobody heard, for more
	// than half a second is left out by a proposal; heard again, it is given everything back by
	// the next one before anybody else has had it. What its app was to forget meanwhile would be
	// lost for nothing; and for an acknowledgement that no leader hears nobody waits.
	hopeFor = time.Second
	// hopeAnswers is how many answers it takes, too: a second in which one of the two stood
	// still is none.
	hopeAnswers = 20
)

// hope is that of a node without a prospect of a lease. The zero value is that of any other.
type hope struct {
	on      bool
	term    uint64 // of the leader that has answered last; zero: none has
	since   time.Duration
	answers int
	over    bool
}

// answered takes an answer, and reports whether hope has ended with that.
func (h *hope) answered(now time.Duration, term uint64) (ended bool) {
	if !h.on || h.over || term < h.term {
		return false
	}
	if term > h.term {
		h.term, h.since, h.answers = term, now, 0
	}
	h.answers++
	h.over = h.answers > hopeAnswers && now-h.since >= hopeFor
	return h.over
}
