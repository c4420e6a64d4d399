package logs

import (
	"sync"
	"time"
)

const (
	// seldom is the time between two lines about one peer, and mostPeers how many
	// are told apart; those beyond share one place.
	seldom    = time.Second
	mostPeers = 256
	// maxWord is as long as a node's id, a disk's, or who has asked and from where.
	maxWord = 256
)

// Seldom lets a line about each peer pass once in a second: what one of them makes a
// node say hides nothing about the others. The zero value is ready; its methods may
// be called from any goroutine.
type Seldom struct {
	mu   sync.Mutex
	last map[string]time.Time // "" is everybody beyond mostPeers
}

// Pass reports whether a line about the peer may be written now.
func (s *Seldom) Pass(peer string) bool {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last == nil {
		s.last = make(map[string]time.Time)
	}
	if _, known := s.last[peer]; !known && len(s.last) >= mostPeers {
		for other, at := range s.last {
			if now.Sub(at) >= seldom {
				delete(s.last, other)
			}
		}
		if len(s.last) >= mostPeers {
			peer = ""
		}
	}
	if last, ok := s.last[peer]; ok && now.Sub(last) < seldom {
		return false
	}
	s.last[peer] = now
	return true
}

// Cut bounds a word of another process for the log, to 256 bytes.
func Cut(word string) string { return word[:min(len(word), maxWord)] }
