package peer

import (
	"strings"
	"sync"
	"time"
)

const (
	// quietFor is how long the same refusal is not repeated in the log: a peer
	// that must not get in asks again all the time.
	quietFor = time.Minute
	// quietTexts is how many different ones are logged in that time: strangers
	// decide what stands in some.
	quietTexts = 64
	// maxLogged is how much of one is logged, in bytes; a refusal is not longer.
	maxLogged = 1 << 10
)

// quiet remembers the last refusals that were logged. The zero value remembers
// none.
type quiet struct {
	mu   sync.Mutex
	last map[string]time.Time
	left int // since leftOut was last asked
}

// fresh reports whether text was not logged within the last minute and may be
// now, and remembers it as logged.
func (q *quiet) fresh(text string) bool {
	text = brief(text)
	q.mu.Lock()
	defer q.mu.Unlock()
	now := time.Now()
	at, known := q.last[text]
	switch {
	case known && now.Sub(at) < quietFor:
	case known || len(q.last) < quietTexts || q.forget(now):
		if q.last == nil {
			q.last = make(map[string]time.Time)
		}
		q.last[text] = now
		return true
	}
	q.left++
	return false
}

// forget drops what is a minute old and reports whether there is room now.
func (q *quiet) forget(now time.Time) bool {
	for text, at := range q.last {
		if now.Sub(at) >= quietFor {
			delete(q.last, text)
		}
	}
	return len(q.last) < quietTexts
}

// leftOut returns how many refusals were not logged since it was last asked.
func (q *quiet) leftOut() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := q.left
	q.left = 0
	return n
}

// brief bounds a text in which a stranger's words stand.
func brief(text string) string {
	if len(text) <= maxLogged {
		return text
	}
	return strings.ToValidUTF8(text[:maxLogged], "") + "…"
}
