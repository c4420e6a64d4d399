package proxy

import (
	"shardway/proxy/connpool"
	"shardway/proxy/route"
)

// A WebSocket that may be resumable uses a multiplexed stream to its owner, if one is available.
// These WebSockets have a separate multiplexed session, so that they neither use up the streams of
// requests nor delay requests with their data. If thousands of WebSockets move, each of them needs
// a few frames instead of a handshake. An idle WebSocket occupies no connection.
//
// A WebSocket whose last relay transferred much data uses its own connection, because the window of
// a stream is limited and its data would delay other WebSockets. WebSockets of a path that are not
// resumable also use connections: they never move, so they would not benefit from streams.

// getWebSocketStream returns a stream to the owner for a new WebSocket. It returns nil if no stream
// is available, or if the WebSocket needs its own connection.
func (router *router) getWebSocketStream(pool *connpool.Pool) *connpool.Conn {
	if router.exchange.isResumption() || pool.Breaker.IsTripped() || router.server.webSockets.nonResumable.ExpectsLarge(&router.req) {
		return nil // a resumed WebSocket waits in the queue: see mayUseStream
	}
	return pool.GetWebSocketStream(router.life.ParentCtx)
}

// mayUseStream reports whether a resumed WebSocket that waits in the queue may use a stream.
func (exchange *exchange) mayUseStream() bool {
	return exchange.isResumption() && !exchange.avoidStreams && !exchange.session.LastRelayBulk
}

// recordWebSocketPath remembers whether the WebSockets of the request's path are resumable,
// according to the owner's response.
func (rr *responseRelay) recordWebSocketPath(attempt *attempt, nonResumable bool) {
	if attempt.route.Kind == route.Remote {
		predictor := &rr.server.webSockets.nonResumable
		predictor.Record(predictor.Key(&rr.req), nonResumable)
	}
}
