package peer

import (
	"net"
	"strings"
	"sync"
	"time"
)

const (
	// repeatLogInterval is the minimum time between two log messages about the same refusal,
	// because a refused peer dials repeatedly.
	repeatLogInterval = time.Minute
	// maxTextsPerSource limits the different refusals that are logged within repeatLogInterval for
	// the address of one node, and for all unknown addresses together. The limit is needed because
	// an unknown peer chooses some words of these texts.
	maxTextsPerSource = 64
	// maxLoggedLen limits the length of a logged text in bytes. A refusal is not longer.
	maxLoggedLen = 1 << 10
)

// logLimiter remembers the refusals that were logged recently, for the address of each node and for
// all strangers separately, so a source cannot suppress the messages about another. The zero
// value is ready to use.
type logLimiter struct {
	// mu protects the following fields.
	mu         sync.Mutex
	lastLogged map[string]map[string]time.Time // time of the last log message, by source and text
	suppressed int                             // texts that were not logged since the last takeSuppressed
}

// allow reports whether a text about from may be logged, and then remembers it as logged. The
// result is false if the text was logged within repeatLogInterval, or if too many other texts were.
// A nil from is this node itself.
func (ll *logLimiter) allow(from net.Addr, options *Options, text string) bool {
	sourceKey := "self"
	if from != nil {
		var isNode bool
		if sourceKey, isNode = origin(from, options); !isNode {
			sourceKey = "strangers"
		}
	}
	text = truncate(text)
	ll.mu.Lock()
	defer ll.mu.Unlock()
	now := time.Now()
	loggedAt, known := ll.lastLogged[sourceKey][text]
	loggedRecently := known && now.Sub(loggedAt) < repeatLogInterval
	if loggedRecently || !known && !ll.hasRoomLocked(now, sourceKey) {
		ll.suppressed++
		return false
	}
	ll.rememberLocked(now, sourceKey, text)
	return true
}

// hasRoomLocked reports whether another text of the source may be remembered. It removes old texts if
// that is necessary. The caller must hold ll.mu.
func (ll *logLimiter) hasRoomLocked(now time.Time, sourceKey string) bool {
	return len(ll.lastLogged[sourceKey]) < maxTextsPerSource || ll.expire(now, sourceKey)
}

// rememberLocked records that a text about the source is logged now. The caller must hold ll.mu.
func (ll *logLimiter) rememberLocked(now time.Time, sourceKey, text string) {
	if ll.lastLogged == nil {
		ll.lastLogged = make(map[string]map[string]time.Time)
	}
	if ll.lastLogged[sourceKey] == nil {
		for other := range ll.lastLogged { // also of nodes that have left
			ll.expire(now, other)
		}
		ll.lastLogged[sourceKey] = make(map[string]time.Time)
	}
	ll.lastLogged[sourceKey][text] = now
}

// expire removes the texts of a source that are older than repeatLogInterval, and reports whether
// another text may be added. The caller must hold ll.mu.
func (ll *logLimiter) expire(now time.Time, sourceKey string) bool {
	texts := ll.lastLogged[sourceKey]
	for text, loggedAt := range texts {
		if now.Sub(loggedAt) >= repeatLogInterval {
			delete(texts, text)
		}
	}
	if len(texts) == 0 {
		delete(ll.lastLogged, sourceKey)
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

// truncate limits the length of a logged text, because an unknown peer may have chosen a part of
// it.
func truncate(text string) string {
	if len(text) <= maxLoggedLen {
		return text
	}
	return strings.ToValidUTF8(text[:maxLoggedLen], "") + "…"
}
