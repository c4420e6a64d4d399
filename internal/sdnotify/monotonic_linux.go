package sdnotify

import (
	"time"

	"golang.org/x/sys/unix"
)

// monotonic reads the clock by which the manager judges: zero if it cannot be read,
// which is older than any wish.
func monotonic() time.Duration {
	var t unix.Timespec
	if unix.ClockGettime(unix.CLOCK_MONOTONIC, &t) != nil {
		return 0
	}
	return time.Duration(t.Nano())
}
