package peer

import (
	"net"
	"strings"
	"sync"
	"time"
)

const (
	// repeatInterval is the minimum time between two log messages about the same refusal: a peer
	// that is refused tries again all the time.
	repeatInterval = time.Minute
	// maxTextsPerSource limits the different refusals that are logged in that time about the
	// address of one node, and about all strangers together: some texts contain words that a
	// stranger chose.
	maxTextsPerSource = 64
	// maxLogged limits the length of a logged text in bytes. A refusal is not longer.
	maxLogged = 1 << 10
)

// logLimiter remembers the refusals that were logged recently, for the address of each node and for
// all strangers separately, so a source cannot suppress the messages about another. The zero
// value is ready to use.
type logLimiter struct {
	mu         sync.Mutex
	last       map[string]map[string]time.Time // by source, by text
	suppressed int                             // since the last takeSuppressed
}

// allow reports whether a text about from may be logged, and then remembers it as logged. It may
// not if it was logged within repeatInterval, or if too many texts were. A nil from is this node
// itself.
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
			for other := range ll.last { // also of nodes that have left
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

// expire removes the texts of a source that are older than repeatInterval, and reports whether
// there is room for another one.
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

// takeSuppressed returns how many refusals were not logged since the last call.
func (ll *logLimiter) takeSuppressed() int {
	ll.mu.Lock()
	defer ll.mu.Unlock()
	n := ll.suppressed
	ll.suppressed = 0
	return n
}

// truncate limits the length of a text that contains words of a stranger.
func truncate(text string) string {
	if len(text) <= maxLogged {
		return text
	}
	return strings.ToValidUTF8(text[:maxLogged], "") + "…"
}
