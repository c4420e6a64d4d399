package clock

import "time"

// system reads CLOCK_MONOTONIC through the runtime and CLOCK_BOOTTIME through the kernel.
type system struct {
	origin time.Time
	boot   time.Duration
}

var (
	_ Clock       = (*system)(nil)
	_ CPUTimer    = (*system)(nil)
	_ KernelClock = (*system)(nil)
)

// CPUTime returns the CPU time that the process has used so far.
func (s *system) CPUTime() (time.Duration, bool) { return CPUTime() }

// Kernel marks a clock that agrees with the timers of the kernel. It has no effect.
func (s *system) Kernel() {}

func (s *system) Now() time.Duration { return time.Since(s.origin) }

func (s *system) Precise() time.Duration {
	b, ok := boottime()
	if !ok {
		// boottime worked in New, so a sandbox must have forbidden it since. The runtime's clock is the best
		// alternative.
		return s.Now()
	}
	return b - s.boot
}
