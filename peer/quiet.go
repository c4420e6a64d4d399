package peer

import (
	"sync"
	"time"
)

// quietFor is how long the same refusal is not repeated in the log: a peer
// that must not get in asks again all the time.
const quietFor = time.Minute

// quiet remembers the last refusals that were logged. The zero value remembers
// none.
type quiet struct {
	mu   sync.Mutex
	last map[string]time.Time
}

// fresh reports whether text was not logged within the last minute, and
// remembers it as logged.
func (q *quiet) fresh(text string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := time.Now()
	if at, ok := q.last[text]; ok && now.Sub(at) < quietFor {
		return false
	}
	if q.last == nil || len(q.last) >= 64 {
		// The texts hold what the dialer said: bounded, whatever he says.
		q.last = make(map[string]time.Time)
	}
	q.last[text] = now
	return true
}
