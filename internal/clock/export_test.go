package clock

import "time"

// Last returns the time of the last tick.
func (p *Pulse) Last() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.last
}
