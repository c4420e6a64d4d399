// Package connset contains the open connections of the proxy, limits their number, and keeps idle ones
// without a goroutine.
//
// A Set contains the connections of clients and of other nodes. The goroutine of a connection adds and
// removes it. One goroutine sweeps the connections of the Set, while there are any. Other goroutines
// visit them, for example to cancel requests.
//
// A Set also contains parked connections. The sweep requests that a connection parks after an idle
// time; then the goroutine of the connection calls Park and exits. A Watcher watches the parked
// connections of a listener, and resumes a connection when its client sends something or disconnects.
//
//	accepted ─► (AddHandshake) ─► Add ─► open ──Park──► parked
//	                               ▲      │               │
//	                               │    Remove       data, timeout, EvictIdle, WakeParked
//	                               │      ▼               │
//	                               │    ended             ▼
//	                               └────────────── Watcher.Resume
//
// A Limit blocks the accepting goroutine at the maximum number of connections. EvictIdle makes room.
//
// Any goroutine may call the methods of a Set. An operation that locks the Set is short: connections are
// closed and resumed without the lock. Between Add and the end of Remove or Park, exactly one goroutine
// owns the connection; a visit does not change that.
package connset
