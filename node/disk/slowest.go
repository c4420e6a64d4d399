package disk

import (
	"sync"
	"time"
)

// slowestWithin is for how long a slow write is remembered, at least; twice as long at
// most.
const slowestWithin = 15 * time.Second

// slowest remembers the longest write of late.
type slowest struct {
	mu          sync.Mutex
	now, before time.Duration // the longest of this span of time and of the one before
	since       time.Time     // when this span began
}

// took notes a write that has ended.
func (s *slowest) took(at time.Time, d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.turn(at)
	s.now = max(s.now, d)
}

// late returns the longest write of late.
func (s *slowest) late(at time.Time) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.turn(at)
	return max(s.now, s.before)
}

// turn begins a new span when the last one is over. With mu held.
func (s *slowest) turn(at time.Time) {
	switch age := at.Sub(s.since); {
	case age >= 2*slowestWithin:
		s.before, s.now, s.since = 0, 0, at
	case age >= slowestWithin:
		s.before, s.now, s.since = s.now, 0, at
	}
}
