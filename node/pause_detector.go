package node

import (
	"runtime"
	"time"
)

const (
	// runningShare determines when the process counts as running between two turns of the agent: if it has
	// used at least 1/runningShare of that time on a CPU.
	runningShare = 8
	// cpuTimeEvery is the shortest time between two reads of the CPU time. A read is a system call, and an
	// idle node has four or five turns in a row. Relevant pauses are longer.
	cpuTimeEvery = 5 * time.Millisecond
)

// pauseDetector distinguishes a pause of the process from a turn of the agent that is late because thousands of
// requests are scheduled before it. Only a pause voids the lease: on a busy machine, each lost lease
// makes more work, because all queued requests continue at the same time. In both cases, the clock
// limits the lease to the time for which it was granted.
type pauseDetector struct {
	cpuTime func() (time.Duration, bool) // CPU time of the process; nil or false means unknown

	lastTurn             time.Duration // time of the last turn
	measuredAt, measured time.Duration // time of the last call of used, and its result
}

// next starts a turn at time now. gap is the time since the previous turn, zero for the first one. ran
// reports whether the process is known to have run since then; it is false within cpuTimeEvery.
func (t *pauseDetector) next(now time.Duration) (gap time.Duration, ran bool) {
	last := t.lastTurn
	if last != 0 {
		gap = now - last
	}
	t.lastTurn = now
	if t.cpuTime == nil || t.measuredAt != 0 && now-t.measuredAt < cpuTimeEvery {
		return gap, false
	}
	used, ok := t.cpuTime()
	// The CPU time used before the last turn is unknown, so the largest possible time is subtracted.
	before := (last - t.measuredAt) * time.Duration(runtime.NumCPU())
	ran = ok && used-t.measured-before >= gap/runningShare
	t.measuredAt, t.measured = now, used
	return gap, ran
}
