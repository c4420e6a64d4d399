package proxy

import (
	"errors"
	"net"

	"shardway/proxy/h1"
)

// Small requests to another node share a connection. Each of them uses a stream of a multiplexed
// session (package peer/mux), so that one system call transfers data of many requests. A request
// uses a stream if all these conditions hold:
//
//   - Several requests to the node are in progress.
//   - Its body has arrived completely.
//   - Its response is expected to be small (sizehint).
//   - A stream is available without waiting.
//
// All other requests use separate connections, on which their data is forwarded as it arrives. A
// response that turns out to be large stays on its stream, which is as fast as its client reads.
// The next request for the same path uses a connection.
//
// Streams only improve performance. If no stream is available, or if one fails, the request uses a
// connection.

// streamThreshold is the number of small requests in progress to a node above which a request uses
// a stream. A session wakes goroutines at both ends, so a stream is worthwhile only if the session
// serves several requests at the same time.
const streamThreshold = 6

// maxStreamRequest is the maximum size in bytes of the header and body of a request on a stream.
// With the fields that the proxy adds, the request fits into one frame. So it waits neither for
// flow-control credit nor for data of other streams.
const maxStreamRequest = 12 << 10

// muxStream is a stream of a multiplexed session with another node.
type muxStream interface {
	h1.MuxStream
	// SessionConn returns the connection that the session uses.
	SessionConn() net.Conn
	// BeginMessage starts a request. Unprocessed then refers to the data that is written after it.
	BeginMessage()
	// Unprocessed reports whether the stream has failed before the peer read any byte of the
	// request.
	Unprocessed() bool
	// Responsive reports whether the session has received data from the peer very recently.
	Responsive() bool
	// SessionDraining reports whether the session accepts no new requests.
	SessionDraining() bool
	// Ping sends a ping, which the peer's kernel acknowledges.
	Ping()
	// FailSession breaks all streams of the session with err.
	FailSession(err error)
}

// errPathDead is the error of requests whose network path to the owner is dead.
var errPathDead = errors.New("proxy: nothing comes from the owner any more")

// fitsStream reports whether a stream can carry the request to another node.
func (c *client) fitsStream() bool {
	if c.req.RequestsUpgrade() || c.req.ExpectsContinue() || !c.body.isFullyBuffered() || len(c.req.Raw())+len(c.body.buffered) > maxStreamRequest || c.exchange.resumed != nil {
		return false
	}
	return !c.server.sizes.Large(&c.req)
}

// acquirePeerConn returns a connection to a node for the request. With useStream it first tries to
// get a stream. If it returns nil, the decision tells what follows.
func (c *client) acquirePeerConn(pool *pool, useStream bool) (conn *upstreamConn, result decision) {
	switch {
	case c.exchange.noStreams:
	case c.exchange.session != nil:
		conn = c.getWebSocketStream(pool)
	case useStream:
		conn = pool.getStream()
	}
	if conn == nil {
		conn, result = c.wait.acquireConn(pool)
	}
	if conn != nil && conn.mux != nil {
		c.server.metrics.streamRequests.Add(1)
	}
	return conn, result
}

// getStream returns a stream for a request. Its session must have received data from the node very
// recently, so that the stream can carry a request that must not be sent twice. It returns nil if
// there is no such stream.
func (p *pool) getStream() *upstreamConn {
	for !p.breaker.IsTripped() {
		conn := p.popIdleStream()
		switch {
		case conn == nil:
			return p.openNewStream()
		case conn.mux.SessionDraining() || !conn.IsAlive():
			p.discard(conn)
		case conn.mux.Responsive():
			conn.mux.BeginMessage()
			return conn
		default: // opening another stream checks the session, or uses another session
			next := p.openNewStream()
			if next != nil && conn.mux.Responsive() { // otherwise the number of idle streams would grow
				p.discard(next)
				conn.mux.BeginMessage()
				return conn
			}
			p.put(conn)
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
	conn := p.mu.idleStreams[n-1]
	p.mu.idleStreams[n-1] = nil
	p.mu.idleStreams = p.mu.idleStreams[:n-1]
	return conn
}

// openNewStream opens a stream, or returns nil if that is not possible without waiting.
func (p *pool) openNewStream() *upstreamConn { return p.addStream(p.openStream()) }

// addStream adds a new stream to the pool. It returns nil if l is nil or the pool is closed.
func (p *pool) addStream(conn *upstreamConn) *upstreamConn {
	if conn == nil {
		return nil
	}
	conn.pool, conn.shard = p, noShard
	p.mu.Lock()
	p.mu.open++
	conn.generation = p.mu.generation
	closed := p.mu.closed
	p.mu.Unlock()
	if closed { // another pool has replaced this one
		p.discard(conn)
		return nil
	}
	return conn
}

// putIdleStream keeps l as an idle stream. It returns false if l is not a stream or must not be
// reused. The caller must hold p.mu.
func (p *pool) putIdleStream(conn *upstreamConn) bool {
	if conn.mux == nil || conn.singleUse || p.mu.closed || p.isStale(conn) {
		return false
	}
	conn.ReleaseEmptyBuffers()
	p.mu.idleStreams = append(p.mu.idleStreams, conn)
	return true
}

// openStream opens a stream to a node. It returns nil if multiplexing is disabled, or if that is not
// possible without waiting.
func (s *Server) openStream(node string) *upstreamConn {
	if s.options.Disable.Multiplexing {
		return nil
	}
	conn := s.options.Cluster.OpenStream(node)
	if conn == nil {
		return nil
	}
	return s.newPeerConn(conn, s.settings.Load())
}
