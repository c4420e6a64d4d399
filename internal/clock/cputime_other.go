//go:build !unix

package clock

import "time"

// Spent is available on Unix only.
func CPUTimeAndPreemptions() (used time.Duration, preempted int64) { return 0, 0 }
