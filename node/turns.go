package node

import (
	"runtime"
	"time"
)

const (
	// ranShare is which part of the time between two turns of the agent the process has had
	// a processor for, if it was not paused.
	ranShare = 8
	// usedEvery is how often at most it is asked what the process has used: that is a system
	// call, and at rest the turns come four or five together. No pause is as short.
	usedEvery = 5 * time.Millisecond
)

// turns tells a pause of the process from a turn of the agent that comes late because
// thousands of requests are before it. A lease is void after a pause; on a busy machine
// every lapse makes more work, as all that was held goes on at once. For how long it was
// granted the clock says in both cases.
type turns struct {
	used func() (time.Duration, bool) // processor time of the process; nil or false: not known

	at        time.Duration // the last turn, by the node's clock
	asked, by time.Duration // when used was asked last, by the node's clock, and what it said
}

// next begins a turn. It returns how long ago the last one began, zero if there was none,
// and whether the process is known to have run since: false of less than usedEvery.
func (t *turns) next(now time.Duration) (gap time.Duration, ran bool) {
	last := t.at
	if last != 0 {
		gap = now - last
	}
	t.at = now
	if t.used == nil || t.asked != 0 && now-t.asked < usedEvery {
		return gap, false
	}
	used, ok := t.used()
	// Nobody knows what of it was used before the last turn: so all that can have been.
	before := (last - t.asked) * time.Duration(runtime.NumCPU())
	ran = ok && used-t.by-before >= gap/ranShare
	t.asked, t.by = now, used
	return gap, ran
}
