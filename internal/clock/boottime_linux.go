package clock

import (
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// boottime returns the time since the machine started, suspension included.
//
// It is unix.ClockGettime but that the scheduler is not told of a call that
// never waits: on a machine with little to do, each such word wakes the
// runtime's monitor thread, at many times the cost of the call.
func boottime() (time.Duration, bool) {
	return read(unix.CLOCK_BOOTTIME)
}

// Used returns how much processor time this process has used so far, all threads
// together; false: the platform does not say.
func Used() (time.Duration, bool) { return read(unix.CLOCK_PROCESS_CPUTIME_ID) }

func read(clock uintptr) (time.Duration, bool) {
	var ts unix.Timespec
	if _, _, errno := unix.RawSyscall(unix.SYS_CLOCK_GETTIME, clock, uintptr(unsafe.Pointer(&ts)), 0); errno != 0 { //nolint:gosec // as package unix does it
		return 0, false
	}
	return time.Duration(ts.Nano()), true
}
