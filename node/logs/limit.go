package logs

import (
	"strings"
	"sync"
	"time"
)

const (
	// repeatInterval is the minimum time between two writes of the same message.
	repeatInterval = time.Minute
	// maxMessages is the number of different messages that are tracked separately within repeatInterval.
	maxMessages = 64
	// maxMessageLen is the maximum length of a written message, in bytes.
	maxMessageLen = 1 << 10
)

// repeatLimit permits each message once per repeatInterval, and up to maxMessages+1 different messages in that time.
// The second limit is needed because some messages contain text sent by other hosts. Messages not seen for
// repeatInterval are dropped.
type repeatLimit struct {
	mu       sync.Mutex // protects the following fields
	seen     map[string]*repeatedText
	overflow repeatedText // shared by all messages beyond maxMessages
}

// repeatedText contains the state of one message.
type repeatedText struct {
	last       time.Time // time of the last write
	suppressed int       // number of repetitions omitted since then
}

func newLimit() *repeatLimit { return &repeatLimit{seen: make(map[string]*repeatedText)} }

// allow reports whether msg may be written now. suppressed is the number of repetitions omitted since the last write.
// Once maxMessages messages are tracked, all further ones count as the same message.
func (l *repeatLimit) allow(msg string) (suppressed int, ok bool) {
	now := time.Now()
	key := keyOf(msg)
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.seen[key]
	switch {
	case r != nil:
	case len(l.seen) < maxMessages || l.evictStale(now):
		r = &repeatedText{}
		l.seen[key] = r
	default:
		r = &l.overflow
	}
	if !r.last.IsZero() && now.Sub(r.last) < repeatInterval {
		r.suppressed++
		return 0, false
	}
	suppressed, r.suppressed, r.last = r.suppressed, 0, now
	return suppressed, true
}

// evictStale drops the messages not written for repeatInterval, and reports whether seen now has room for another one.
func (l *repeatLimit) evictStale(now time.Time) bool {
	for key, r := range l.seen {
		if now.Sub(r.last) >= repeatInterval {
			l.overflow.suppressed += r.suppressed
			delete(l.seen, key)
		}
	}
	return len(l.seen) < maxMessages
}

// keyOf returns the part of a message that identifies it. keyOf cuts the remote address that ends many memberlist
// messages, because its port differs each time.
func keyOf(msg string) string {
	msg, _, _ = strings.Cut(msg, " from=")
	return truncateText(msg)
}

// truncateText truncates a message to maxMessageLen bytes.
func truncateText(msg string) string {
	if len(msg) <= maxMessageLen {
		return msg
	}
	return strings.ToValidUTF8(msg[:maxMessageLen], "") + "…"
}
