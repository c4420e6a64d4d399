package disk

import (
	"sync"
	"time"
)

// slowestWithin is the minimum time for which a slow write is remembered. The maximum is
// twice as long.
const slowestWithin = 15 * time.Second

// slowestWrite records the longest recent write.
type slowestWrite struct {
	mu          sync.Mutex
	now, before time.Duration // longest write of the current and of the previous interval
	since       time.Time     // start of the current interval
}

// record records a completed write.
func (s *slowestWrite) record(at time.Time, d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rotateLocked(at)
	s.now = max(s.now, d)
}

// longest returns the duration of the longest recent write.
func (s *slowestWrite) longest(at time.Time) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rotateLocked(at)
	return max(s.now, s.before)
}

// rotateLocked starts a new interval when the current one is over. s.mu must be held.
func (s *slowestWrite) rotateLocked(at time.Time) {
	switch age := at.Sub(s.since); {
	case age >= 2*slowestWithin:
		s.before, s.now, s.since = 0, 0, at
	case age >= slowestWithin:
		s.before, s.now, s.since = s.now, 0, at
	}
}
