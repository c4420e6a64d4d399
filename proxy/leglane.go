package proxy

import (
	"context"
	"time"
)

// A WebSocket that may be kept goes to its owner by a lane, if there is one: of a trunk that
// carries such sockets alone, so that they take no places of requests, and what is said on
// them stands in front of none. The next leg of thousands that move is then a few frames each,
// and no handshake, and one that says nothing holds no connection.
//
// What transfers much is better off with a connection of its own: its lane has a window that
// the trunk bounds, and others wait behind what it says. So a socket whose leg did so has one
// for its next leg, and so have those of paths whose WebSockets are not kept, which have no
// next leg.

const (
	// legWithin is how long a leg waits for a trunk before it has a connection of its own.
	legWithin = time.Second
	// heavyLeg is how much a leg has transferred at least, and heavyRate how much in a second
	// of its life, if the next one is to have a connection of its own.
	heavyLeg  = 1 << 20
	heavyRate = 64 << 10
)

// firstLane returns a lane to the owner for a socket that has no leg yet; nil: there is none,
// or it is to have a connection.
func (c *client) firstLane(p *pool) *upstreamConn {
	if c.x.later() || p.breaker.tripped.Load() || c.s.unkept.large(&c.req) {
		return nil // that of a later leg comes in its turn: see takesLane
	}
	return p.addStream(p.openWebSocketStream(c.life.within))
}

// takesLane reports whether a leg that waits in line takes a lane.
func (x *exchange) takesLane() bool { return x.later() && !x.noStreams && !x.sock.heavy }

// openLeg opens a lane to a node for a socket; nil: there is none.
func (s *Server) openLeg(ctx context.Context, node string) *upstreamConn {
	ctx, cancel := context.WithTimeout(ctx, legWithin)
	defer cancel()
	conn := s.o.Cluster.Leg(ctx, node)
	if conn == nil {
		return nil
	}
	l := s.peerLink(conn, s.set.Load())
	l.singleUse = true
	return l
}

// forWebSocket reports whether the next connection is to be made for a socket that takes a lane: one
// for each request in line is being made. With mu held.
func (p *pool) forWebSocket() bool {
	w := p.mu.queue.firstUpgrade
	return p.node != "" && w != nil && w.streamAllowed && p.mu.queue.n-p.mu.queue.upgrades <= p.mu.dialing-p.mu.dialingStreams
}

// firstStreamWaiter returns the first who takes a lane.
func (q *waitQueue) firstStreamWaiter() *waiter {
	w := q.firstUpgrade
	for w != nil && !w.streamAllowed {
		w = w.next
	}
	return w
}

// carried returns how much has passed on the client's connection, or at the owner on that of
// the ingress.
func (l *leg) carried() int64 { return l.near.Received() + l.near.Sent() - l.before }

// heavy reports whether the leg, which is over, has transferred much.
func (l *leg) heavy() bool {
	n, d := l.carried(), l.s.clock.now()-l.born
	return n >= heavyLeg && n >= int64(heavyRate*d.Seconds())
}

// notePath remembers of a path whether its WebSockets are kept, by what the owner says.
func (y *relay) notePath(p *attempt, unkept bool) {
	if p.r.Kind == Remote {
		y.s.unkept.note(y.s.unkept.key(&y.req), unkept)
	}
}
