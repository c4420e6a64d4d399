package clock

import (
	"time"

	"golang.org/x/sys/unix"
)

// boottime returns the time since the machine started, suspension included.
func boottime() (time.Duration, bool) {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		return 0, false
	}
	return time.Duration(ts.Nano()), true
}
