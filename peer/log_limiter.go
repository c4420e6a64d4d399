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
	repeatInterval = time.Minute
	// quietTexts is how many different ones are logged in that time, about one
	// node's address and about all strangers together: they decide what stands in
	// some.
	maxTextsPerSource = 64
	// maxLogged is how much of one is logged, in bytes; a refusal is not longer.
	maxLogged = 1 << 10
)

// quiet remembers the last refusals that were logged, those of each node's address
// and those of all strangers apart: who fills his places takes nobody else's. The
// zero value remembers none.
type logLimiter struct {
	mu         sync.Mutex
	last       map[string]map[string]time.Time // by source, by text
	suppressed int                             // since leftOut was last asked
}

// fresh reports whether a text about somebody was not logged within the last minute
// and may be now, and remembers it as logged. A nil from is this node itself.
func (ll *logLimiter) allow(from net.Addr, o *Options, text string) bool {
	key := "self"
	if from != nil {
		var node bool
		if key, node = origin(from, o); !node {
			key = "strangers"
		}
	}
	text = truncate(text)
	ll.mu.Lock()
	defer ll.mu.Unlock()
	now := time.Now()
	at, known := ll.last[key][text]
	switch {
	case known && now.Sub(at) < repeatInterval:
	case known || len(ll.last[key]) < maxTextsPerSource || ll.expire(now, key):
		if ll.last == nil {
			ll.last = make(map[string]map[string]time.Time)
		}
		if ll.last[key] == nil {
			for other := range ll.last { // of nodes that are not there any more, too
				ll.expire(now, other)
			}
			ll.last[key] = make(map[string]time.Time)
		}
		ll.last[key][text] = now
		return true
	}
	ll.suppressed++
	return false
}

// forget drops what is a minute old about a source, and reports whether there is room
// for another text.
func (ll *logLimiter) expire(now time.Time, key string) bool {
	texts := ll.last[key]
	for text, at := range texts {
		if now.Sub(at) >= repeatInterval {
			delete(texts, text)
		}
	}
	if len(texts) == 0 {
		delete(ll.last, key)
	}
	return len(texts) < maxTextsPerSource
}

// leftOut returns how many refusals were not logged since it was last asked.
func (ll *logLimiter) takeSuppressed() int {
	ll.mu.Lock()
	defer ll.mu.Unlock()
	n := ll.suppressed
	ll.suppressed = 0
	return n
}

// brief bounds a text in which a stranger's words stand.
func truncate(text string) string {
	if len(text) <= maxLogged {
		return text
	}
	return strings.ToValidUTF8(text[:maxLogged], "") + "…"
}
