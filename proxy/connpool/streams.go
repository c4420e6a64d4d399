package connpool

import "context"

// GetStream returns a stream for a request. Its session must have received data from the node very
// recently, so that the stream can carry a request that must not be sent twice. It returns nil if
// there is no such stream.
func (p *Pool) GetStream() *Conn {
	for !p.Breaker.IsTripped() {
		p.mu.Lock()
		conn := p.mu.idle.popNewestStream()
		p.mu.Unlock()
		switch {
		case conn == nil:
			return p.addStream(p.opts.OpenStream())
		case conn.Mux.SessionDraining() || !conn.IsAlive():
			p.Discard(conn)
		case conn.Mux.Responsive():
			conn.Mux.BeginMessage()
			return conn
		default:
			return p.replaceSilentStream(conn)
		}
	}
	return nil
}

// replaceSilentStream opens another stream for a request because the session of conn has been
// silent. Doing so probes that session or uses another one. If the session has responded by then,
// the request uses conn, so that idle streams do not accumulate.
func (p *Pool) replaceSilentStream(conn *Conn) *Conn {
	next := p.addStream(p.opts.OpenStream())
	if next != nil && conn.Mux.Responsive() {
		p.Discard(next)
		conn.Mux.BeginMessage()
		return conn
	}
	p.Put(conn)
	return next
}

// GetWebSocketStream returns a stream for a WebSocket, and may block to open it. It returns nil if
// there is none.
func (p *Pool) GetWebSocketStream(ctx context.Context) *Conn {
	return p.addStream(p.opts.OpenWebSocketStream(ctx))
}

// addStream adds a new stream to the pool. It returns nil if conn is nil or the pool is closed.
func (p *Pool) addStream(conn *Conn) *Conn {
	if conn == nil {
		return nil
	}
	conn.Pool, conn.shard = p, NoShard
	p.mu.Lock()
	p.mu.open++
	conn.generation = p.mu.generation
	closed := p.mu.closed
	p.mu.Unlock()
	if closed { // another pool has replaced this one
		p.Discard(conn)
		return nil
	}
	return conn
}

// putIdleStream keeps conn as an idle stream. It returns false if conn is not a stream or must not be
// reused. The caller must hold p.mu.
func (p *Pool) putIdleStream(conn *Conn) bool {
	if conn.Mux == nil || conn.SingleUse || p.mu.closed || p.isStale(conn) {
		return false
	}
	conn.ReleaseEmptyBuffers()
	p.mu.idle.streams = append(p.mu.idle.streams, conn)
	return true
}
