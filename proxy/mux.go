package proxy

import (
	"errors"
	"net"

	"shardway/proxy/h1"
)

// Small requests to another node share a connection: each one uses a stream of a multiplexed
// session (package peer/mux), so that one system call carries the bytes of many requests. A
// request uses a stream if all of these hold:
//
//   - Several requests to the node are in progress.
//   - Its body has arrived completely.
//   - Its response is expected to be small (sizes.go).
//   - A stream is available at once.
//
// All other requests have connections of their own, on which their bytes are passed on as they
// arrive. A response that turns out to be large stays on its stream, as fast as its client
// reads it; the next request for the same path gets a connection.
//
// Streams only save time. If none is available, or if one fails, the request continues as it
// would without streams.

// streamThreshold is the number of small requests to a node from which the next one uses a stream.
// A session wakes goroutines at both ends, which pays off only if it serves several requests at
// once.
const streamThreshold = 6

// maxStreamRequest is the maximum size in bytes of a request on a stream, header and body
// together. With the fields that the proxy adds, it fits into one frame. So it waits neither for
// flow-control credit nor for the bytes of other streams.
const maxStreamRequest = 12 << 10

// muxStream is a stream of a multiplexed session with another node.
type muxStream interface {
	h1.MuxStream
	// SessionConn returns the connection that the session uses.
	SessionConn() net.Conn
	// BeginMessage starts a request: Unprocessed covers what is written from here on.
	BeginMessage()
	// Unprocessed reports whether the stream failed before the peer read any of the request.
	Unprocessed() bool
	// Responsive reports whether the session has received something from the peer very recently.
	Responsive() bool
	// SessionDraining reports whether the session accepts no new requests.
	SessionDraining() bool
	// Ping sends something to the peer, so that its kernel acknowledges it.
	Ping()
	// FailSession breaks all streams of the session with err.
	FailSession(err error)
}

// errPathDead is the error of requests whose network path to the owner was found dead.
var errPathDead = errors.New("proxy: nothing comes from the owner any more")

// fitsStream reports whether a stream can carry the request to another node.
func (c *client) fitsStream() bool {
	if c.req.Upgrades() || c.req.Expects() || !c.body.whole() || len(c.req.Raw())+len(c.body.buffered) > maxStreamRequest || c.x.resumed != nil {
		return false
	}
	return !c.s.sizes.large(&c.req)
}

// acquirePeerConn returns a connection to a node for the request. With streams it tries a stream
// first. Without a connection it returns the decision.
func (c *client) acquirePeerConn(p *pool, useStream bool) (l *upstreamConn, v decision) {
	switch {
	case c.x.noStreams:
	case c.x.session != nil:
		l = c.getWebSocketStream(p)
	case useStream:
		l = p.getStream()
	}
	if l == nil {
		l, v = c.wait.acquireConn(p)
	}
	if l != nil && l.mux != nil {
		c.s.metrics.streamRequests.Add(1)
	}
	return l, v
}

// getStream returns a stream of a session that has received something from the node very recently,
// so that the stream can carry a request that must not be sent twice. It returns nil if there is
// none.
func (p *pool) getStream() *upstreamConn {
	for !p.breaker.tripped.Load() {
		l := p.popIdleStream()
		switch {
		case l == nil:
			return p.openNewStream()
		case l.mux.SessionDraining() || !l.Alive():
			p.discard(l)
		case l.mux.Responsive():
			l.mux.BeginMessage()
			return l
		default: // opening another stream probes the session, or uses another session
			next := p.openNewStream()
			if next != nil && l.mux.Responsive() { // otherwise idle streams would accumulate
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

// popIdleStream removes and returns the idle stream that was used last, or nil.
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

// openNewStream opens a stream if that is possible at once. It returns nil otherwise.
func (p *pool) openNewStream() *upstreamConn { return p.addStream(p.openStream()) }

// addStream adds a stream that was opened to the pool. It returns nil if l is nil or the pool is
// closed.
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

// putIdleStream keeps l as an idle stream. It reports false if l is not a stream or must not be
// reused. The caller holds p.mu.
func (p *pool) putIdleStream(l *upstreamConn) bool {
	if l.mux == nil || l.singleUse || p.mu.closed || p.isStale(l) {
		return false
	}
	l.Idle()
	p.mu.idleStreams = append(p.mu.idleStreams, l)
	return true
}

// openStream opens a stream to a node. It returns nil if there is none at once.
func (s *Server) openStream(node string) *upstreamConn {
	conn := s.o.Cluster.OpenStream(node)
	if conn == nil {
		return nil
	}
	return s.newPeerConn(conn, s.set.Load())
}
