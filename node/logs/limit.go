package logs

import (
	"strings"
	"sync"
	"time"
)

const (
	// repeatInterval is the shortest time between two writes of the same message.
	repeatInterval = time.Minute
	// maxTexts is the number of different messages that are counted separately within quiet.
	maxTexts = 64
	// maxText is the largest length of a written message, in bytes.
	maxText = 1 << 10
)

// repeatLimit permits each message once per quiet, and at most maxTexts+1 different messages in that time: some
// messages contain text that other hosts have sent. It deletes messages that have not occurred for quiet.
type repeatLimit struct {
	mu   sync.Mutex // protects the following fields
	seen map[string]*repeatedText
	rest repeatedText // shared by all messages that do not fit in seen
}

// repeatedText contains the state of one message.
type repeatedText struct {
	last time.Time // time of the last write
	left int       // number of messages that were omitted since then
}

// newLimit returns a limit that has not seen any message.
func newLimit() *repeatLimit { return &repeatLimit{seen: make(map[string]*repeatedText)} }

// pass reports whether msg may be written now. left is the number of omitted repetitions since the last
// write. If there are already maxTexts messages, all further ones count as the same message.
func (l *repeatLimit) pass(msg string) (left int, ok bool) {
	now := time.Now()
	key := keyOf(msg)
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.seen[key]
	switch {
	case r != nil:
	case len(l.seen) < maxTexts || l.forget(now):
		r = &repeatedText{}
		l.seen[key] = r
	default:
		r = &l.rest
	}
	if !r.last.IsZero() && now.Sub(r.last) < repeatInterval {
		r.left++
		return 0, false
	}
	left, r.left, r.last = r.left, 0, now
	return left, true
}

// forget deletes the messages that were not written for quiet, and reports whether seen has room for another
// message now.
func (l *repeatLimit) forget(now time.Time) bool {
	for key, r := range l.seen {
		if now.Sub(r.last) >= repeatInterval {
			l.rest.left += r.left
			delete(l.seen, key)
		}
	}
	return len(l.seen) < maxTexts
}

// keyOf returns the part of a message that identifies it. Many messages of memberlist end with a remote
// address, whose port differs each time, so keyOf removes it.
func keyOf(msg string) string {
	msg, _, _ = strings.Cut(msg, " from=")
	return truncateText(msg)
}

// truncateText truncates a message to maxText bytes.
func truncateText(msg string) string {
	if len(msg) <= maxText {
		return msg
	}
	return strings.ToValidUTF8(msg[:maxText], "") + "…"
}
