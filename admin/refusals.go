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
	refusalsAtOnce = 16
	refusalEvery   = 5 * time.Minute
)

// refusals decides which of them are told as events. The zero value has told none.
type refusals struct {
	mu     sync.Mutex
	spent  int       // of refusalsAtOnce
	since  time.Time // when spent was last right
	untold int
}

// tell reports whether a change that came to a status is told; untold is how many before it
// were not, and were in no event yet.
func (f *refusals) tell(status int, now time.Time) (tell bool, untold int) {
	if status < http.StatusBadRequest {
		return true, 0
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if again := int(now.Sub(f.since) / refusalEvery); again >= f.spent {
		f.spent, f.since = 0, now
	} else {
		f.spent, f.since = f.spent-again, f.since.Add(time.Duration(again)*refusalEvery)
	}
	if f.spent == refusalsAtOnce {
		f.untold++
		return false, 0
	}
	f.spent++
	untold, f.untold = f.untold, 0
	return true, untold
}
