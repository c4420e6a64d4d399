package consensus

import (
	"sync/atomic"
	"time"
)

// rateLimit permits an action at most once per interval. It uses the monotonic clock, because the
// date of a machine may be set back by hours.
type rateLimit struct {
	interval time.Duration
	last     atomic.Pointer[time.Time] // time of the last permitted action; nil means never
}

// allow reports whether the action is permitted at the time now, and records it.
func (l *rateLimit) allow(now time.Time) bool {
	last := l.last.Load()
	return (last == nil || now.Sub(*last) >= l.interval) && l.last.CompareAndSwap(last, &now)
}
