package clock

import "time"

// Last returns when the Pulse has beaten last.
func (p *Pulse) Last() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.last
}
