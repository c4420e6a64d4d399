package logs

import (
	"sync"
	"time"
)

const (
	quiet    = 10 * time.Second
	maxTexts = 256
)

// limit lets a message through once in ten seconds.
type limit struct {
	mu   sync.Mutex
	seen map[string]*repeat
}

// repeat is what limit knows about one message.
type repeat struct {
	last time.Time
	left int
}

func newLimit() *limit { return &limit{seen: make(map[string]*repeat)} }

// pass reports whether msg may be written now, and how many like it were left
// out since the last one. Texts beyond the first 256 share one place, because
// memberlist puts addresses into its messages.
func (l *limit) pass(msg string) (left int, ok bool) {
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.seen[msg]
	if r == nil {
		if len(l.seen) >= maxTexts {
			msg = ""
		}
		if r = l.seen[msg]; r == nil {
			l.seen[msg] = &repeat{last: now}
			return 0, true
		}
	}
	if now.Sub(r.last) < quiet {
		r.left++
		return 0, false
	}
	left, r.left, r.last = r.left, 0, now
	return left, true
}
