package logs

import (
	"sync"
	"time"
)

const (
	// minInterval is the minimum time between two lines about one peer. maxPeers is the number of peers that are
	// limited separately; all further peers share one limit.
	minInterval = time.Second
	maxPeers    = 256
	// maxWord is the length to which Cut truncates. This is enough for a node ID, a disk ID, or a requester's name and
	// address.
	maxWord = 256
)

// PeerLimiter limits log lines to one per second and peer, so that a noisy peer does not drown out the others. The zero
// value is ready for use. Its methods may be called from any goroutine.
type PeerLimiter struct {
	mu   sync.Mutex           // protects last
	last map[string]time.Time // time of the last line, by peer; "" stands for all peers beyond maxPeers
}

// Pass reports whether a line about the peer may be written now.
func (l *PeerLimiter) Pass(peer string) bool {
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.last == nil {
		l.last = make(map[string]time.Time)
	}
	if _, known := l.last[peer]; !known && len(l.last) >= maxPeers {
		for other, at := range l.last {
			if now.Sub(at) >= minInterval {
				delete(l.last, other)
			}
		}
		if len(l.last) >= maxPeers {
			peer = ""
		}
	}
	if last, ok := l.last[peer]; ok && now.Sub(last) < minInterval {
		return false
	}
	l.last[peer] = now
	return true
}

// Cut truncates text received from another process to maxWord bytes, for logging.
func Cut(word string) string { return word[:min(len(word), maxWord)] }
