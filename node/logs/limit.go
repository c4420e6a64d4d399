package logs

import (
	"strings"
	"sync"
	"time"
)

const (
	quiet = time.Minute
	// maxTexts is how many different messages are written within quiet.
	maxTexts = 64
	// maxText is how much of a message is written, in bytes.
	maxText = 1 << 10
)

// limit lets a message through once a minute, and at most 65 different ones
// in that time: what strangers send stands in some of them. What it has not met
// for so long it forgets.
type limit struct {
	mu   sync.Mutex
	seen map[string]*repeat
	rest repeat // of the messages for which there was no place
}

// repeat is what limit knows about one message.
type repeat struct {
	last time.Time
	left int
}

func newLimit() *limit { return &limit{seen: make(map[string]*repeat)} }

// pass reports whether msg may be written now, and how many like it were left
// out since the last one. Beyond the first texts all share one place.
func (l *limit) pass(msg string) (left int, ok bool) {
	now := time.Now()
	key := keyOf(msg)
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.seen[key]
	switch {
	case r != nil:
	case len(l.seen) < maxTexts || l.forget(now):
		r = &repeat{}
		l.seen[key] = r
	default:
		r = &l.rest
	}
	if !r.last.IsZero() && now.Sub(r.last) < quiet {
		r.left++
		return 0, false
	}
	left, r.left, r.last = r.left, 0, now
	return left, true
}

// forget drops what was not met for a while and reports whether there is a place
// now.
func (l *limit) forget(now time.Time) bool {
	for key, r := range l.seen {
		if now.Sub(r.last) >= quiet {
			l.rest.left += r.left
			delete(l.seen, key)
		}
	}
	return len(l.seen) < maxTexts
}

// keyOf is what makes two messages the same one: memberlist ends many with the
// address they are about, and with a port that is new each time.
func keyOf(msg string) string {
	msg, _, _ = strings.Cut(msg, " from=")
	return short(msg)
}

// short bounds a text.
func short(msg string) string {
	if len(msg) <= maxText {
		return msg
	}
	return strings.ToValidUTF8(msg[:maxText], "") + "…"
}
