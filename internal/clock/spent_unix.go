//go:build unix

package clock

import (
	"time"

	"golang.org/x/sys/unix"
)

// Spent returns how much processor time this process has used so far, all threads together,
// and how often another process was given a processor that it could have used on
// (getrusage(2), ru_nivcsw): between two calls not once on a machine that has processors to
// spare, and every few milliseconds on one that is asked for more than it has.
// It is one call for both: the time is that of Used.
func Spent() (used time.Duration, preempted int64) {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) != nil {
		return 0, 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), int64(u.Nivcsw) //nolint:unconvert // 32 bits on some platforms
}
