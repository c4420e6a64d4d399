package clock

import (
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// boottime returns the time since the machine started, including suspension.
//
// It uses a raw system call, which unix.ClockGettime does not: the scheduler need not be
// notified of a call that never blocks. On a mostly idle machine each notification wakes
// the monitor thread of the runtime, at many times the cost of the call.
func boottime() (time.Duration, bool) {
	return readClock(unix.CLOCK_BOOTTIME)
}

// CPUTime returns the CPU time that all threads of this process have used. ok is false if the
// platform does not provide it.
func CPUTime() (used time.Duration, ok bool) { return readClock(unix.CLOCK_PROCESS_CPUTIME_ID) }

func readClock(clock uintptr) (time.Duration, bool) {
	var now unix.Timespec
	if _, _, errno := unix.RawSyscall(unix.SYS_CLOCK_GETTIME, clock, uintptr(unsafe.Pointer(&now)), 0); errno != 0 { //nolint:gosec // as package unix does it
		return 0, false
	}
	return time.Duration(now.Nano()), true
}
