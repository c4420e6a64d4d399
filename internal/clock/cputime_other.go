//go:build !unix

package clock

import "time"

// CPUTimeAndPreemptions is available on Unix only.
func CPUTimeAndPreemptions() (used time.Duration, preempted int64) { return 0, 0 }
