package clock

import "time"

// Clock returns the time since its own origin. Values of different Clocks cannot be
// compared.
type Clock interface {
	// Now returns the monotonic time of the Go runtime since the origin. It does not
	// advance while the machine is suspended.
	Now() time.Duration

	// Precise returns the time since the same origin, including suspension. It never lags
	// behind Now by more than the cost of the two calls.
	Precise() time.Duration
}

// A CPUTimer is a Clock of a process whose CPU time is known.
type CPUTimer interface {
	// CPUTime returns the CPU time that the process has used; see the function CPUTime.
	CPUTime() (time.Duration, bool)
}

// A KernelClock is a Clock that agrees with the timers of the kernel.
type KernelClock interface {
	// Kernel has no effect.
	Kernel()
}

// New returns the clock of a running process. Its origin is the time of the call. On
// platforms without CLOCK_BOOTTIME, Precise equals Now.
func New() Clock {
	b, ok := boottime()
	if !ok {
		return Virtual()
	}
	return &system{origin: time.Now(), boot: b}
}

// Virtual returns a clock that uses the time of the Go runtime for both variants. In a
// testing/synctest bubble, this is the time of the bubble.
func Virtual() Clock {
	return &virtual{origin: time.Now()}
}
