package peer

import (
	"net"
	"strings"
	"sync"
	"time"
)

const (
	// quietFor is how long the same refusal is not repeated in the log: a peer
	// that must not get in asks again all the time.
	quietFor = time.Minute
	// quietTexts is how many different ones are logged in that time, about one
	// node's address and about all strangers together: they decide what stands in
	// some.
	quietTexts = 64
	// maxLogged is how much of one is logged, in bytes; a refusal is not longer.
	maxLogged = 1 << 10
)

// quiet remembers the last refusals that were logged, those of each node's address
// and those of all strangers apart: who fills his places takes nobody else's. The
// zero value remembers none.
type quiet struct {
	mu   sync.Mutex
	last map[string]map[string]time.Time // by source, by text
	left int                             // since leftOut was last asked
}

// fresh reports whether a text about somebody was not logged within the last minute
// and may be now, and remembers it as logged. A nil from is this node itself.
func (q *quiet) fresh(from net.Addr, o *Options, text string) bool {
	key := "self"
	if from != nil {
		var node bool
		if key, node = origin(from, o); !node {
			key = "strangers"
		}
	}
	text = brief(text)
	q.mu.Lock()
	defer q.mu.Unlock()
	now := time.Now()
	at, known := q.last[key][text]
	switch {
	case known && now.Sub(at) < quietFor:
	case known || len(q.last[key]) < quietTexts || q.forget(now, key):
		if q.last == nil {
			q.last = make(map[string]map[string]time.Time)
		}
		if q.last[key] == nil {
			for other := range q.last { // of nodes that are not there any more, too
				q.forget(now, other)
			}
			q.last[key] = make(map[string]time.Time)
		}
		q.last[key][text] = now
		return true
	}
	q.left++
	return false
}

// forget drops what is a minute old about a source, and reports whether there is room
// for another text.
func (q *quiet) forget(now time.Time, key string) bool {
	texts := q.last[key]
	for text, at := range texts {
		if now.Sub(at) >= quietFor {
			delete(texts, text)
		}
	}
	if len(texts) == 0 {
		delete(q.last, key)
	}
	return len(texts) < quietTexts
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
