//go:build unix

package clock

import (
	"time"

	"golang.org/x/sys/unix"
)

// CPUTimeAndPreemptions returns the CPU time that all threads of this process have used. It also returns
// how often the kernel has preempted one of them (ru_nivcsw of getrusage(2)). On a machine with idle
// processors that count does not change. On an overloaded machine it grows every few milliseconds. One
// system call returns both values; the CPU time equals that of CPUTime.
func CPUTimeAndPreemptions() (used time.Duration, preempted int64) {
	var usage unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &usage) != nil {
		return 0, 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano()), int64(usage.Nivcsw) //nolint:unconvert // 32 bits on some platforms
}
