package clock

import "time"

const (
	// A process that uses at least 1/busyShare of a core is busy, and stays so for busyPeriod.
	// A process whose poller is behind uses all the CPU time that it gets. Without requests
	// a process uses a fiftieth of a core on a slow machine.
	busyShare  = 16
	busyPeriod = 300 * time.Millisecond
	// maxTimerDelay is the longest delay of a timer on a machine that has a free core for it.
	maxTimerDelay = 30 * time.Millisecond
)

// load determines whether the process is busy, or the machine too busy to run it in time.
type load struct {
	measuredAt time.Time     // time of the last measurement
	cpuTime    time.Duration // CPU time used by then
	busyUntil  time.Time     // end of the busy period
}

// update evaluates a tick that was late by the given time. used returns the CPU time of the
// process.
func (l *load) update(now time.Time, late time.Duration, used func() (time.Duration, bool)) {
	busy := late > maxTimerDelay
	if gap := now.Sub(l.measuredAt); gap >= MaxInterval/2 { // in a shorter interval the cost of the wake-up itself dominates
		u, ok := used()
		busy = busy || !ok || u-l.cpuTime >= gap/busyShare
		l.measuredAt, l.cpuTime = now, u
	}
	if busy {
		l.busyUntil = now.Add(busyPeriod)
	}
}

func (l *load) isBusy(now time.Time) bool { return now.Before(l.busyUntil) }
