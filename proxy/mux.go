package proxy

import (
	"errors"
	"net"

	"shardway/proxy/h1"
)

// Where several are under way there, a request whose body is here, and whose answer is small
// as far as is known, goes to its owner by a lane, if there is one at once: one connection
// carries many of those, and one system call what many have to say. The others have
// connections of their own, on which they can be passed on as they come. An answer that turns
// out large comes by its lane all the same, as fast as its client takes it, and the next one
// does not (sizes.go).
//
// A lane saves time and is nothing to wait for: one that is not to be had, or that fails,
// leaves a request where it would be without lanes.

// streamThreshold is how many small requests are under way to a node when the next goes by a lane:
// a trunk wakes goroutines at each end, which pays where it is for several at once.
const streamThreshold = 6

// maxStreamRequest is how long a request that goes by a lane may be, head and body: with what is
// added to it, it is one frame, and waits neither for the other end to have read it nor for
// what others have to say.
const maxStreamRequest = 12 << 10

// muxStream is a connection to a node that shares what is below it with others.
type muxStream interface {
	h1.MuxStream
	// SessionConn returns the connection that the session uses.
	SessionConn() net.Conn
	// BeginMessage starts a request: Unprocessed covers what is written from here on.
	BeginMessage()
	// Unprocessed reports whether the stream failed before the peer read any of the request.
	Unprocessed() bool
	// Responsive reports whether something has come from the other end just now, for any that
	// shares it.
	Responsive() bool
	// SessionDraining reports whether it is not to be used again.
	SessionDraining() bool
	// Ping has something go to the other end, so that its kernel acknowledges it.
	Ping()
	// FailSession breaks all that share it, each with err.
	FailSession(err error)
}

// errPathDead is what the requests of a path break with that was found dead.
var errPathDead = errors.New("proxy: nothing comes from the owner any more")

// fitsStream reports whether a lane would do for the request, to another node.
func (c *client) fitsStream() bool {
	if c.req.Upgrades() || c.req.Expects() || !c.up.whole() || len(c.req.Raw())+len(c.up.kept) > maxStreamRequest || c.x.resumed != nil {
		return false
	}
	return !c.s.sizes.large(&c.req)
}

// acquirePeerConn gets a connection to a node for a request, or a lane where that pays.
func (c *client) acquirePeerConn(p *pool, lanes bool) (l *upstreamConn, v decision) {
	switch {
	case c.x.noStreams:
	case c.x.sock != nil:
		l = c.firstLane(p)
	case lanes:
		l = p.getStream()
	}
	if l == nil {
		l, v = c.wait.acquireConn(p)
	}
	if l != nil && l.mux != nil {
		c.s.metrics.laned.Add(1)
	}
	return l, v
}

// getStream returns a lane to the node by which something has come just now, so that it may
// carry what must not be sent twice; nil: there is none.
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
		default: // its trunk is to be asked for a word, or there is another one
			next := p.openNewStream()
			if next != nil && l.mux.Responsive() { // else idle lanes would pile up
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

// popIdleStream takes the idle lane that was used last.
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

// openNewStream opens a lane, if there is one at once.
func (p *pool) openNewStream() *upstreamConn { return p.addStream(p.openStream()) }

// addStream has a lane that was opened, if it was, count as the pool's.
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
	if closed { // there is another pool
		p.discard(l)
		return nil
	}
	return l
}

// putIdleStream keeps a lane idle; false: it is none, or nobody wants it. With mu held.
func (p *pool) putIdleStream(l *upstreamConn) bool {
	if l.mux == nil || l.singleUse || p.mu.closed || p.isStale(l) {
		return false
	}
	l.Idle()
	p.mu.idleStreams = append(p.mu.idleStreams, l)
	return true
}

// openStream opens a lane to a node, nil if there is none at once.
func (s *Server) openStream(node string) *upstreamConn {
	conn := s.o.Cluster.Lane(node)
	if conn == nil {
		return nil
	}
	return s.peerLink(conn, s.set.Load())
}
