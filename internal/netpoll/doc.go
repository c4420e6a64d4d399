// Package netpoll watches idle connections, so that an idle connection needs no goroutine. The stack
// of a goroutine would need more memory than the rest of the connection.
//
// A Watcher calls a function when a connection becomes readable, once. It has one goroutine, which
// waits in epoll for all its connections. On systems other than Linux, no connection is watched. Any
// number of goroutines may call Watch.
//
//	         Watch                data, end of stream, error, failure of the Watcher
//	(none) ────────► watched ────────────────────────────────────────────────────────► ready is called
//	                    │
//	                    └─ cancel ─► (none)
package netpoll
