//go:build !linux

package sdnotify

import "time"

// monotonic is zero where there is no such manager.
func monotonic() time.Duration { return 0 }
