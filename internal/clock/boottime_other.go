//go:build !linux

package clock

import "time"

// boottime has no portable source outside Linux.
func boottime() (time.Duration, bool) { return 0, false }

// Used has none either.
func Used() (time.Duration, bool) { return 0, false }
