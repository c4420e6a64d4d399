package clock

import "time"

const (
	// A process that uses at least 1/busyShare of a core is busy, and stays so for busyFor.
	// A process whose poller is behind uses all the CPU time that it gets. Without requests
	// a process uses a fiftieth of a core on a slow machine.
	busyShare = 16
	busyFor   = 300 * time.Millisecond
	// lateMost is the longest delay of a timer on a machine that has a free core for it.
	lateMost = 30 * time.Millisecond
)

// load determines whether the process is busy, or the machine too busy to run it in time.
type load struct {
	at    time.Time     // time of the last measurement
	used  time.Duration // CPU time used by then
	until time.Time     // end of the busy period
}

// update evaluates a tick that was late by the given time. used returns the CPU time of the
// process.
func (l *load) update(now time.Time, late time.Duration, used func() (time.Duration, bool)) {
	busy := late > lateMost
	if gap := now.Sub(l.at); gap >= AtRest/2 { // in a shorter interval the cost of the wake-up itself dominates
		u, ok := used()
		busy = busy || !ok || u-l.used >= gap/busyShare
		l.at, l.used = now, u
	}
	if busy {
		l.until = now.Add(busyFor)
	}
}

func (l *load) busy(now time.Time) bool { return now.Before(l.until) }
