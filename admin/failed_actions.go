package admin

import (
	"net/http"
	"sync"
	"time"
)

// Limits on the events about failed actions: a burst, then one per interval. So a client that sends
// invalid actions continuously adds only 12 events per hour, and the event ring still holds days of
// cluster history. The log contains all failed actions.
const (
	failedActionBurst    = 16
	failedActionInterval = 5 * time.Minute
)

// failedActions is a token bucket that decides which failed actions become events. The zero value
// is ready to use.
type failedActions struct {
	mu         sync.Mutex
	count      int       // events sent of the current burst, as of since
	since      time.Time // time of the last refill
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
	if refilled := int(now.Sub(f.since) / failedActionInterval); refilled >= f.count {
		f.count, f.since = 0, now
	} else {
		f.count, f.since = f.count-refilled, f.since.Add(time.Duration(refilled)*failedActionInterval)
	}
	if f.count == failedActionBurst {
		f.suppressed++
		return false, 0
	}
	f.count++
	suppressed, f.suppressed = f.suppressed, 0
	return true, suppressed
}
