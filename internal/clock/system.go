package clock

import "time"

// system reads CLOCK_MONOTONIC through the runtime and CLOCK_BOOTTIME through the kernel.
type system struct {
	origin time.Time
	boot   time.Duration
}

var _ Clock = (*system)(nil)

// CPUTime returns the CPU time of the process, see the function Used.
func (s *system) CPUTime() (time.Duration, bool) { return CPUTime() }

// Kernel marks a clock that agrees with the timers of the kernel.
func (s *system) Kernel() {}

func (s *system) Now() time.Duration { return time.Since(s.origin) }

func (s *system) Precise() time.Duration {
	b, ok := boottime()
	if !ok {
		// boottime worked in New, so a sandbox has forbidden it since. The clock of the
		// runtime is the best alternative.
		return s.Now()
	}
	return b - s.boot
}
