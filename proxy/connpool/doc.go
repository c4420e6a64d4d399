// Package connpool keeps the connections of the proxy to its app and to other nodes.
//
// A Pool contains the connections to one destination. Peers contains a pool for each other node. A
// request gets a connection in one of these ways:
//
//   - Get returns an idle connection without blocking.
//   - GetStream returns a stream of a multiplexed session with another node, without blocking.
//   - Join adds a Waiter to the wait queue, and Await returns the connection that the pool grants to
//     it: one that another request has returned, or one that the pool has dialed.
//
// The request owns the connection until it calls Put, to keep it for other requests, or Discard, to
// close it. Detach removes a connection from the limit of open connections if its response may last
// for hours.
//
// Limits apply in this order. The circuit breaker (backoff.Breaker) lets one request at a time
// through while the destination accepts no connections. shardLimits limits the connections to the
// app that one shard uses. Options.MaxConns limits the open connections. slowStart limits the new
// connections to the app, because its listen backlog may be short.
//
// All methods of Pool and Peers may be called from any goroutine. Pool.mu protects the state of a
// pool and the fields of Conn that are marked so. It is held only for short computations:
// connections are dialed, checked and closed without it.
package connpool
