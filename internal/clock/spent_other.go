//go:build !unix

package clock

import "time"

// Spent is not known here.
func Spent() (used time.Duration, preempted int64) { return 0, 0 }
