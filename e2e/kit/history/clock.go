//go:build linux

package history

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Now returns CLOCK_MONOTONIC in nanoseconds. All processes of a machine have the same
// clock, also in different network namespaces.
func Now() int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		panic(fmt.Sprintf("history: the monotonic clock cannot be read: %v", err))
	}
	return ts.Nano()
}
