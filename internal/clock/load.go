package clock

import "time"

const (
	// busyShare is the part of a core that a busy process uses, and busyFor how long it
	// counts as such after that was last so. A process whose poller is behind uses all that
	// it gets; one without requests a fiftieth, on a slow machine.
	busyShare = 16
	busyFor   = 300 * time.Millisecond
	// lateMost is how late a timer ends at most where the machine has a core for it.
	lateMost = 30 * time.Millisecond
)

// load tells whether a process is busy, or the machine is too busy for it.
type load struct {
	at    time.Time     // when it was looked at what was used
	used  time.Duration // by then
	until time.Time     // it counts as busy
}

// look is told at each beat by how much it was late.
func (l *load) look(now time.Time, late time.Duration, used func() (time.Duration, bool)) {
	busy := late > lateMost
	if gap := now.Sub(l.at); gap >= AtRest/2 { // less is no more than what woke it
		u, ok := used()
		busy = busy || !ok || u-l.used >= gap/busyShare
		l.at, l.used = now, u
	}
	if busy {
		l.until = now.Add(busyFor)
	}
}

func (l *load) busy(now time.Time) bool { return now.Before(l.until) }
