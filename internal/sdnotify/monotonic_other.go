//go:build !linux

package sdnotify

import "time"

// monotonic returns zero: only Linux has such a service manager.
func monotonic() time.Duration { return 0 }
