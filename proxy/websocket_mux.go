package proxy

import (
	"context"
	"time"

	"shardway/proxy/route"
)

// A WebSocket that may be resumable uses a multiplexed stream to its owner, if one is available.
// Its session carries such WebSockets only, so that they take no places of requests, and their
// data does not delay requests. If thousands of WebSockets move, each one then needs a few frames
// instead of a handshake, and an idle WebSocket occupies no connection.
//
// A WebSocket that transfers much data gets a connection of its own: the window of a stream is
// limited, and its data would delay others. The size of its last relay decides. A path whose
// WebSockets are not resumable also gets connections, because these WebSockets never move.

const (
	// streamWait is how long a WebSocket waits for a session before it uses a connection.
	streamWait = time.Second
	// A relay counts as bulk if it has transferred at least bulkBytes bytes, and at least bulkRate
	// bytes per second of its life.
	bulkBytes = 1 << 20
	bulkRate  = 64 << 10
)

// getWebSocketStream returns a stream to the owner for a new WebSocket. It returns nil if there is
// none, or if the WebSocket needs a connection.
func (c *client) getWebSocketStream(p *pool) *upstreamConn {
	if c.x.isResumption() || p.breaker.tripped.Load() || c.s.nonResumable.large(&c.req) {
		return nil // a resumed WebSocket waits in the queue: see mayUseStream
	}
	return p.addStream(p.openWebSocketStream(c.life.within))
}

// mayUseStream reports whether a resumed WebSocket that waits in the queue may use a stream.
func (x *exchange) mayUseStream() bool { return x.isResumption() && !x.noStreams && !x.session.bulk }

// openWebSocketStream opens a stream to a node for a WebSocket, or returns nil.
func (s *Server) openWebSocketStream(ctx context.Context, node string) *upstreamConn {
	ctx, cancel := context.WithTimeout(ctx, streamWait)
	defer cancel()
	conn := s.o.Cluster.OpenWebSocketStream(ctx, node)
	if conn == nil {
		return nil
	}
	l := s.newPeerConn(conn, s.set.Load())
	l.singleUse = true
	return l
}

// forWebSocket reports whether the next dial should open a stream for a WebSocket: connections for
// all waiting requests are being dialed already. The caller holds p.mu.
func (p *pool) forWebSocket() bool {
	w := p.mu.queue.firstUpgrade
	return p.node != "" && w != nil && w.streamAllowed && p.mu.queue.n-p.mu.queue.upgrades <= p.mu.dialing-p.mu.dialingStreams
}

// firstStreamWaiter returns the first waiter that can use a stream, or nil.
func (q *waitQueue) firstStreamWaiter() *waiter {
	w := q.firstUpgrade
	for w != nil && !w.streamAllowed {
		w = w.next
	}
	return w
}

// transferred returns how many bytes the relay has transferred on downstream.
func (l *webSocketRelay) transferred() int64 {
	return l.downstream.Received() + l.downstream.Sent() - l.before
}

// isBulk reports whether the relay, which has ended, has transferred much data.
func (l *webSocketRelay) isBulk() bool {
	n, d := l.transferred(), l.s.clock.now()-l.born
	return n >= bulkBytes && n >= int64(bulkRate*d.Seconds())
}

// noteWebSocketPath remembers whether the WebSockets of a path are resumable, as the response of
// the owner says.
func (y *responseRelay) noteWebSocketPath(p *attempt, unkept bool) {
	if p.route.Kind == route.Remote {
		y.s.nonResumable.note(y.s.nonResumable.key(&y.req), unkept)
	}
}
