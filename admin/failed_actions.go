package admin

import (
	"net/http"
	"sync"
	"time"
)

// Bounds on the events of changes that were asked for and came to nothing: so many at once,
// and then one in refusalEvery. That is a twelfth of an event a minute, and what a ring
// keeps of the cluster lasts days beside somebody who sends nonsense without a pause. The
// log has all.
const (
	failedActionBurst    = 16
	failedActionInterval = 5 * time.Minute
)

// refusals decides which of them are told as events. The zero value has told none.
type failedActions struct {
	mu         sync.Mutex
	count      int       // of refusalsAtOnce
	since      time.Time // when spent was last right
	suppressed int
}

// tell reports whether a change that came to a status is told; untold is how many before it
// were not, and were in no event yet.
func (f *failedActions) sample(status int, now time.Time) (tell bool, untold int) {
	if status < http.StatusBadRequest {
		return true, 0
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if again := int(now.Sub(f.since) / failedActionInterval); again >= f.count {
		f.count, f.since = 0, now
	} else {
		f.count, f.since = f.count-again, f.since.Add(time.Duration(again)*failedActionInterval)
	}
	if f.count == failedActionBurst {
		f.suppressed++
		return false, 0
	}
	f.count++
	untold, f.suppressed = f.suppressed, 0
	return true, untold
}
