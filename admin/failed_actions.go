package admin

import (
	"net/http"
	"sync"
	"time"
)

// Limits on the events about failed actions: a burst, then one per interval. As a result, a client that sends
// invalid actions continuously adds only 12 events per hour, and the event ring still holds days of cluster
// history. The log contains all failed actions.
const (
	failedActionBurst    = 16
	failedActionInterval = 5 * time.Minute
)

// failedActions is a token bucket that decides which failed actions become events. The zero value
// is ready to use.
type failedActions struct {
	// mu protects the following fields.
	mu         sync.Mutex
	used       int       // used part of failedActionBurst at the time lastRefill
	lastRefill time.Time // zero means never
	suppressed int       // failed actions since the last event
}

// sample reports whether an action with this response status becomes an event. suppressed is the
// number of failed actions since the last event that did not become one.
func (f *failedActions) sample(status int, now time.Time) (report bool, suppressed int) {
	if status < http.StatusBadRequest {
		return true, 0
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.refillLocked(now)
	if f.used == failedActionBurst {
		f.suppressed++
		return false, 0
	}
	f.used++
	suppressed, f.suppressed = f.suppressed, 0
	return true, suppressed
}

// refillLocked permits one more event for each failedActionInterval that has passed.
func (f *failedActions) refillLocked(now time.Time) {
	refilled := int(now.Sub(f.lastRefill) / failedActionInterval)
	if refilled >= f.used {
		f.used, f.lastRefill = 0, now
		return
	}
	f.used -= refilled
	f.lastRefill = f.lastRefill.Add(time.Duration(refilled) * failedActionInterval)
}
