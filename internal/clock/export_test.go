package clock

import "time"

// Last returns the time of the last tick.
func (s *Scheduler) Last() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lastTick
}
