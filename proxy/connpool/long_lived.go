package connpool

import "sync/atomic"

// LongLivedLimit limits the number of connections that are treated as long-lived.
type LongLivedLimit struct {
	Max  int64 // the limit; set before the first use
	open atomic.Int64
}

// IsFull reports whether the limit is reached.
func (l *LongLivedLimit) IsFull() bool { return l.open.Load() >= l.Max }

// Detach counts a connection as long-lived instead of pooled, because its response may last for hours. It returns
// false at the limit of long-lived connections, and if the exchange on conn has ended. inProgress reports whether
// the exchange is still in progress, and is called with p.mu held so that Put and Discard see the result. nil means
// that it is in progress.
func (p *Pool) Detach(conn *Conn, inProgress func() bool) bool {
	if p.opts.LongLived.open.Add(1) > p.opts.LongLived.Max {
		p.opts.LongLived.open.Add(-1)
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	mayDetach := !conn.longLived && (inProgress == nil || inProgress())
	if !mayDetach {
		p.opts.LongLived.open.Add(-1)
		return false
	}
	conn.longLived = true
	p.mu.longLived++
	p.mu.open--
	p.releaseShard(conn)
	p.dialForWaiters()
	return true
}
