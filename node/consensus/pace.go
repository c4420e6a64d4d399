package consensus

import (
	"sync/atomic"
	"time"
)

// pace allows something at most once in a while, by the monotonic clock: a machine's
// date may be set back by hours.
type pace struct {
	every time.Duration
	last  atomic.Pointer[time.Time] // when it was last allowed; nil: never
}

// allows reports whether it may be done now, as time.Now has it, and then notes it.
func (p *pace) allows(now time.Time) bool {
	last := p.last.Load()
	return (last == nil || now.Sub(*last) >= p.every) && p.last.CompareAndSwap(last, &now)
}
