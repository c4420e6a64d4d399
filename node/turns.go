package node

import (
	"runtime"
	"time"
)

const (
	// ranShare determines when the process counts as running between two turns of the agent: if it has
	// used at least 1/ranShare of that time on a CPU.
	ranShare = 8
	// usedEvery is the shortest time between two reads of the CPU time. A read is a system call, and an
	// idle node has four or five turns in a row. Relevant pauses are longer.
	usedEvery = 5 * time.Millisecond
)

// turns distinguishes a pause of the process from a turn of the agent that is late because thousands of
// requests are scheduled before it. Only a pause voids the lease: on a busy machine, each lost lease
// makes more work, because all queued requests continue at the same time. In both cases, the clock
// limits the lease to the time for which it was granted.
type turns struct {
	used func() (time.Duration, bool) // CPU time of the process; nil or false means unknown

	at        time.Duration // time of the last turn
	asked, by time.Duration // time of the last call of used, and its result
}

// next starts a turn at time now. gap is the time since the previous turn, zero for the first one. ran
// reports whether the process is known to have run since then; it is false within usedEvery.
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
	// The CPU time used before the last turn is unknown, so the largest possible time is subtracted.
	before := (last - t.asked) * time.Duration(runtime.NumCPU())
	ran = ok && used-t.by-before >= gap/ranShare
	t.asked, t.by = now, used
	return gap, ran
}
