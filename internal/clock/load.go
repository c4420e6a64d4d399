package clock

import "time"

const (
	// A process that uses at least 1/busyShare of a core is busy, and stays so for busyPeriod. A process whose
	// poller is behind uses all the CPU time it gets. Without requests a process uses a fiftieth of a core on a
	// slow machine.
	busyShare  = 16
	busyPeriod = 300 * time.Millisecond
	// maxTimerDelay is the longest delay of a timer on a machine that has a free core for it.
	maxTimerDelay = 30 * time.Millisecond
)

// cpuLoad determines whether the process is busy, or the machine too busy to run it in time.
type cpuLoad struct {
	measuredAt time.Time     // time of the last measurement
	cpuTime    time.Duration // CPU time that the process had used until then
	busyUntil  time.Time     // end of the busy period
}

// update evaluates a tick that came later than planned by delay. readCPUTime returns the CPU time that the process
// has used, or false if it is unknown.
func (l *cpuLoad) update(now time.Time, delay time.Duration, readCPUTime func() (time.Duration, bool)) {
	isBusy := delay > maxTimerDelay
	if elapsed := now.Sub(l.measuredAt); elapsed >= MaxInterval/2 { // in a shorter interval the cost of the wake-up itself dominates
		cpuTime, isKnown := readCPUTime()
		usesCore := cpuTime-l.cpuTime >= elapsed/busyShare
		isBusy = isBusy || !isKnown || usesCore
		l.measuredAt, l.cpuTime = now, cpuTime
	}
	if isBusy {
		l.busyUntil = now.Add(busyPeriod)
	}
}

// isBusy reports whether the process or the machine is busy at time now.
func (l *cpuLoad) isBusy(now time.Time) bool { return now.Before(l.busyUntil) }
