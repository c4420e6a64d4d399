package proxy

import (
	"errors"

	"shardway/proxy/connpool"
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
// Including the fields that the proxy adds, the request fits into one frame, so it waits neither
// for flow-control credit nor for data of other streams.
const maxStreamRequest = 12 << 10

// errPathDead is the error of requests whose network path to the owner is dead.
var errPathDead = errors.New("proxy: nothing comes from the owner any more")

// fitsStream reports whether a stream can carry the request to another node. The request must be
// small and complete, its response must be expected to be small, and neither may take long.
func (router *router) fitsStream() bool {
	if router.req.RequestsUpgrade() || router.req.ExpectsContinue() || router.exchange.eventStream != nil {
		return false
	}
	size := len(router.req.Raw()) + len(router.body.Buffered)
	if !router.body.IsFullyBuffered() || size > maxStreamRequest {
		return false
	}
	return !router.server.largeResponses.ExpectsLarge(&router.req)
}

// acquirePeerConn returns a connection to a node for the request. If useStream is set, it first
// tries to get a stream. If it returns nil, the decision determines how the request continues.
func (router *router) acquirePeerConn(pool *connpool.Pool, useStream bool) (conn *connpool.Conn, result decision) {
	switch {
	case router.exchange.avoidStreams:
	case router.exchange.session != nil:
		conn = router.getWebSocketStream(pool)
	case useStream:
		conn = pool.GetStream()
	}
	if conn == nil {
		conn, result = router.wait.acquireConn(pool)
	}
	if conn != nil && conn.Mux != nil {
		router.server.metrics.MuxStreams.Add(1)
	}
	return conn, result
}
