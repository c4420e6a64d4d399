//go:build linux

package history

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Now reads CLOCK_MONOTONIC in nanoseconds: the same clock in every process of
// the machine, network namespaces included.
func Now() int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		panic(fmt.Sprintf("history: the monotonic clock cannot be read: %v", err))
	}
	return ts.Nano()
}
