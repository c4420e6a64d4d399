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

// lanesFrom is how many small requests are under way to a node when the next goes by a lane:
// a trunk wakes goroutines at each end, which pays where it is for several at once.
const lanesFrom = 6

// laneRequest is how long a request that goes by a lane may be, head and body: with what is
// added to it, it is one frame, and waits neither for the other end to have read it nor for
// what others have to say.
const laneRequest = 12 << 10

// lane is a connection to a node that shares what is below it with others.
type lane interface {
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

// errDeaf is what the requests of a path break with that was found dead.
var errDeaf = errors.New("proxy: nothing comes from the owner any more")

// small reports whether a lane would do for the request, to another node.
func (c *client) small() bool {
	if c.req.Upgrades() || c.req.Expects() || !c.up.whole() || len(c.req.Raw())+len(c.up.kept) > laneRequest || c.x.resumed != nil {
		return false
	}
	return !c.s.sizes.large(&c.req)
}

// linkTo gets a connection to a node for a request, or a lane where that pays.
func (c *client) linkTo(p *pool, lanes bool) (l *link, v verdict) {
	switch {
	case c.x.laneless:
	case c.x.sock != nil:
		l = c.firstLane(p)
	case lanes:
		l = p.takeLane()
	}
	if l == nil {
		l, v = c.wait.link(p)
	}
	if l != nil && l.lane != nil {
		c.s.metrics.laned.Add(1)
	}
	return l, v
}

// takeLane returns a lane to the node by which something has come just now, so that it may
// carry what must not be sent twice; nil: there is none.
func (p *pool) takeLane() *link {
	for !p.gate.shut.Load() {
		l := p.newestLane()
		switch {
		case l == nil:
			return p.newLane()
		case l.lane.SessionDraining() || !l.Alive():
			p.drop(l)
		case l.lane.Responsive():
			l.lane.BeginMessage()
			return l
		default: // its trunk is to be asked for a word, or there is another one
			next := p.newLane()
			if next != nil && l.lane.Responsive() { // else idle lanes would pile up
				p.drop(next)
				l.lane.BeginMessage()
				return l
			}
			p.put(l)
			return next
		}
	}
	return nil
}

// newestLane takes the idle lane that was used last.
func (p *pool) newestLane() *link {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := len(p.mu.lanes)
	if n == 0 {
		return nil
	}
	l := p.mu.lanes[n-1]
	p.mu.lanes[n-1] = nil
	p.mu.lanes = p.mu.lanes[:n-1]
	return l
}

// newLane opens a lane, if there is one at once.
func (p *pool) newLane() *link { return p.enlist(p.lane()) }

// enlist has a lane that was opened, if it was, count as the pool's.
func (p *pool) enlist(l *link) *link {
	if l == nil {
		return nil
	}
	l.pool, l.place = p, unshared
	p.mu.Lock()
	p.mu.open++
	l.era = p.mu.era
	closed := p.mu.closed
	p.mu.Unlock()
	if closed { // there is another pool
		p.drop(l)
		return nil
	}
	return l
}

// keepLane keeps a lane idle; false: it is none, or nobody wants it. With mu held.
func (p *pool) keepLane(l *link) bool {
	if l.lane == nil || l.lone || p.mu.closed || p.stale(l) {
		return false
	}
	l.Idle()
	p.mu.lanes = append(p.mu.lanes, l)
	return true
}

// openLane opens a lane to a node, nil if there is none at once.
func (s *Server) openLane(node string) *link {
	conn := s.o.Cluster.Lane(node)
	if conn == nil {
		return nil
	}
	return s.peerLink(conn, s.set.Load())
}
