package node

import "time"

// ranShare is which part of the time between two turns of the agent the process has had
// a processor for, if it was not paused.
const ranShare = 8

// turns tells a pause of the process from a turn of the agent that comes late because
// thousands of requests are before it. A lease is void after a pause; on a busy machine
// every lapse makes more work, as all that was held goes on at once. For how long it was
// granted the clock says in both cases.
type turns struct {
	used func() (time.Duration, bool) // processor time of the process; nil or false: not known

	at, by time.Duration // the last turn, by the node's clock, and what was used by then
}

// next begins a turn. It returns how long ago the last one began, zero if there was none,
// and whether the process is known to have run since.
func (t *turns) next(now time.Duration) (gap time.Duration, ran bool) {
	if t.at != 0 {
		gap = now - t.at
	}
	t.at = now
	if t.used == nil {
		return gap, false
	}
	used, ok := t.used()
	ran = ok && used-t.by >= gap/ranShare
	t.by = used
	return gap, ran
}
