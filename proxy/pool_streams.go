package proxy

import "context"

// getStream returns a stream for a request. Its session must have received data from the node very
// recently, so that the stream can carry a request that must not be sent twice. It returns nil if
// there is no such stream.
func (p *pool) getStream() *upstreamConn {
	for !p.breaker.IsTripped() {
		l := p.popIdleStream()
		switch {
		case l == nil:
			return p.openNewStream()
		case l.mux.SessionDraining() || !l.IsAlive():
			p.discard(l)
		case l.mux.Responsive():
			l.mux.BeginMessage()
			return l
		default: // opening another stream checks the session, or uses another session
			next := p.openNewStream()
			if next != nil && l.mux.Responsive() { // otherwise the number of idle streams would grow
				p.discard(next)
				l.mux.BeginMessage()
				return l
			}
			p.put(l)
			return next
		}
	}
	return nil
}

// popIdleStream removes and returns the most recently used idle stream, or nil.
func (p *pool) popIdleStream() *upstreamConn {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := len(p.mu.idleStreams)
	if n == 0 {
		return nil
	}
	l := p.mu.idleStreams[n-1]
	p.mu.idleStreams[n-1] = nil
	p.mu.idleStreams = p.mu.idleStreams[:n-1]
	return l
}

// openNewStream opens a stream, or returns nil if that is not possible without waiting.
func (p *pool) openNewStream() *upstreamConn { return p.addStream(p.opts.OpenStream()) }

// getWebSocketStream returns a stream for a WebSocket, and may block to open it. It returns nil if
// there is none.
func (p *pool) getWebSocketStream(ctx context.Context) *upstreamConn {
	return p.addStream(p.opts.OpenWebSocketStream(ctx))
}

// addStream adds a new stream to the pool. It returns nil if l is nil or the pool is closed.
func (p *pool) addStream(l *upstreamConn) *upstreamConn {
	if l == nil {
		return nil
	}
	l.pool, l.shard = p, noShard
	p.mu.Lock()
	p.mu.open++
	l.generation = p.mu.generation
	closed := p.mu.closed
	p.mu.Unlock()
	if closed { // another pool has replaced this one
		p.discard(l)
		return nil
	}
	return l
}

// putIdleStream keeps l as an idle stream. It returns false if l is not a stream or must not be
// reused. The caller must hold p.mu.
func (p *pool) putIdleStream(l *upstreamConn) bool {
	if l.mux == nil || l.singleUse || p.mu.closed || p.isStale(l) {
		return false
	}
	l.ReleaseEmptyBuffers()
	p.mu.idleStreams = append(p.mu.idleStreams, l)
	return true
}
