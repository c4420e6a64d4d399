package node

import (
	"runtime"
	"time"
)

const (
	// minRunningShare determines whether the process counts as running between two turns of the agent: it must have
	// used a CPU for at least 1/minRunningShare of the time between them.
	minRunningShare = 8
	// cpuTimeInterval is the minimum time between two readings of the CPU time. A reading is a system call, and an
	// idle node has four or five turns in a row. Relevant pauses are longer.
	cpuTimeInterval = 5 * time.Millisecond
)

// pauseDetector determines why the agent had no turn for a long time:
//
//   - The process was paused. Only a pause voids the lease.
//   - The process ran, but thousands of requests were scheduled before the agent. The lease remains
//     valid: on a busy machine, each lost lease causes more work, because all queued requests
//     continue at the same time.
//
// In both cases, the clock limits the lease to the time for which it was granted.
type pauseDetector struct {
	// cpuTime returns the CPU time that the process has used. If it is nil or returns false, the time is unknown.
	cpuTime func() (time.Duration, bool)

	previousTurnAt time.Duration // time of the clock; zero before the first turn

	// The previous reading of cpuTime: its time of the clock (zero means none), and its result.
	readAt, readCPUTime time.Duration
}

// beginTurn must be called at the start of each turn of the agent. It returns the time since the previous
// turn, which is zero for the first turn, and whether the process is known to have run since then. hasRun is
// false if that is unknown: the CPU time is read only once per cpuTimeInterval.
func (d *pauseDetector) beginTurn(now time.Duration) (gap time.Duration, hasRun bool) {
	previousTurnAt := d.previousTurnAt
	d.previousTurnAt = now
	if previousTurnAt != 0 {
		gap = now - previousTurnAt
	}
	wasReadRecently := d.readAt != 0 && now-d.readAt < cpuTimeInterval
	if d.cpuTime == nil || wasReadRecently {
		return gap, false
	}
	used, isKnown := d.cpuTime()
	// The process may have used all CPUs between the previous reading and the previous turn.
	maxUsedBeforeGap := (previousTurnAt - d.readAt) * time.Duration(runtime.NumCPU())
	minUsedInGap := used - d.readCPUTime - maxUsedBeforeGap
	d.readAt, d.readCPUTime = now, used
	return gap, isKnown && minUsedInGap >= gap/minRunningShare
}
