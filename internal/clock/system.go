package clock

import "time"

// system reads CLOCK_MONOTONIC through the runtime and CLOCK_BOOTTIME through
// the kernel.
type system struct {
	origin time.Time
	boot   time.Duration
}

var _ Clock = (*system)(nil)

// Used returns how much processor time the process has used so far, all threads together;
// false: the platform does not say.
func (s *system) Used() (time.Duration, bool) { return Used() }

// Kernel says that the kernel's timers go by this clock.
func (s *system) Kernel() {}

func (s *system) Now() time.Duration { return time.Since(s.origin) }

func (s *system) Precise() time.Duration {
	b, ok := boottime()
	if !ok {
		// It worked in New, so a sandbox took it away since. The runtime's
		// clock is the best that is left.
		return s.Now()
	}
	return b - s.boot
}
