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
	// streamWait is how long a leg waits for a trunk before it has a connection of its own.
	streamWait = time.Second
	// bulkBytes is how much a leg has transferred at least, and bulkRate how much in a second
	// of its life, if the next one is to have a connection of its own.
	bulkBytes = 1 << 20
	bulkRate  = 64 << 10
)

// getWebSocketStream returns a lane to the owner for a socket that has no leg yet; nil: there is none,
// or it is to have a connection.
func (c *client) getWebSocketStream(p *pool) *upstreamConn {
	if c.x.isResumption() || p.breaker.tripped.Load() || c.s.nonResumable.large(&c.req) {
		return nil // that of a later leg comes in its turn: see mayUseStream
	}
	return p.addStream(p.openWebSocketStream(c.life.within))
}

// mayUseStream reports whether a leg that waits in line takes a lane.
func (x *exchange) mayUseStream() bool { return x.isResumption() && !x.noStreams && !x.session.bulk }

// openWebSocketStream opens a lane to a node for a socket; nil: there is none.
func (s *Server) openWebSocketStream(ctx context.Context, node string) *upstreamConn {
	ctx, cancel := context.WithTimeout(ctx, streamWait)
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

// transferred returns how much has passed on the client's connection, or at the owner on that of
// the ingress.
func (l *webSocketRelay) transferred() int64 {
	return l.downstream.Received() + l.downstream.Sent() - l.before
}

// isBulk reports whether the leg, which is over, has transferred much.
func (l *webSocketRelay) isBulk() bool {
	n, d := l.transferred(), l.s.clock.now()-l.born
	return n >= bulkBytes && n >= int64(bulkRate*d.Seconds())
}

// noteWebSocketPath remembers of a path whether its WebSockets are kept, by what the owner says.
func (y *responseRelay) noteWebSocketPath(p *attempt, unkept bool) {
	if p.route.Kind == Remote {
		y.s.nonResumable.note(y.s.nonResumable.key(&y.req), unkept)
	}
}
