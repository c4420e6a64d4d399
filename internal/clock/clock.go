package clock

import "time"

// Clock tells the time since an origin of its own. Values of two Clocks cannot
// be compared.
type Clock interface {
	// Now returns the runtime's monotonic time since the origin. It stands
	// still while the machine is suspended.
	Now() time.Duration

	// Precise returns the time since the same origin and counts suspension.
	// It never runs behind Now by more than the cost of reading either.
	Precise() time.Duration
}

// New returns the clock of a running process, with its origin at the call.
// Where the platform has no CLOCK_BOOTTIME, Precise is Now.
func New() Clock {
	b, ok := boottime()
	if !ok {
		return Virtual()
	}
	return &system{origin: time.Now(), boot: b}
}

// Virtual returns a clock whose both readings come from the runtime: inside a
// testing/synctest bubble that is the bubble's time.
func Virtual() Clock {
	return &virtual{origin: time.Now()}
}
