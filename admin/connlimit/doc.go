// Package connlimit limits the connections and the concurrent requests of an admin port, so that a
// client without credentials cannot use up the file descriptors or the memory of the process.
//
// # Types
//
//   - NewListener returns a listener with a limit on open connections, in total and per source.
//   - RequestLimit limits concurrent requests in total and per source.
//   - UnusedConns closes connections without a request when the server stops.
//   - SourceOf maps a remote address to the source that the limits count: an IPv4 address or an
//     IPv6 /64 network.
//
// # Concurrency
//
// All types are safe for concurrent use.
package connlimit
