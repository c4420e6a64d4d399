package proxy

import "sync/atomic"

// streams limits the number of app connections that count as long-lived.
type streams struct {
	max  int64
	open atomic.Int64
}

// isFull reports whether the limit is reached.
func (s *streams) isFull() bool { return s.open.Load() >= s.max }

// detach counts a connection as long-lived instead of pooled, because its response may last for
// hours. It returns false at the limit of long-lived connections. It also returns false if still
// returns false, which means that the run has ended. still is called with p.mu held, so that put
// and discard see the result; nil means that it is not called.
func (p *pool) detach(l *upstreamConn, still func() bool) bool {
	if p.opts.Streams.open.Add(1) > p.opts.Streams.max {
		p.opts.Streams.open.Add(-1)
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if l.longLived || still != nil && !still() {
		p.opts.Streams.open.Add(-1)
		return false
	}
	l.longLived = true
	p.mu.longLived++
	p.mu.open--
	p.releaseShard(l)
	p.dialForWaiters()
	return true
}
