//go:build !linux

package clock

import "time"

// boottime is available on Linux only.
func boottime() (time.Duration, bool) { return 0, false }

// CPUTime is available on Linux only.
func CPUTime() (time.Duration, bool) { return 0, false }
