package disk

import (
	"sync"
	"time"
)

// slowestInterval is the minimum time for which a slow write is remembered. The maximum is
// twice as long.
const slowestInterval = 15 * time.Second

// slowestWrite records the longest recent write.
type slowestWrite struct {
	mu                sync.Mutex
	current, previous time.Duration // longest write of the current and of the previous interval
	startedAt         time.Time     // start of the current interval
}

// record records a completed write.
func (s *slowestWrite) record(now time.Time, duration time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rotateLocked(now)
	s.current = max(s.current, duration)
}

// longest returns the duration of the longest recent write.
func (s *slowestWrite) longest(now time.Time) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rotateLocked(now)
	return max(s.current, s.previous)
}

// rotateLocked starts a new interval when the current one is over. s.mu must be held.
func (s *slowestWrite) rotateLocked(now time.Time) {
	switch age := now.Sub(s.startedAt); {
	case age >= 2*slowestInterval:
		s.previous, s.current, s.startedAt = 0, 0, now
	case age >= slowestInterval:
		s.previous, s.current, s.startedAt = s.current, 0, now
	}
}
