// Package rawio performs non-blocking socket I/O without notifying the Go scheduler.
//
//   - Read, Write, WriteMore, ReadFrom and WriteTo are single system calls for use in
//     functions passed to a syscall.RawConn. They never block.
//   - Stream reads and writes a socket like package net, with these calls.
//   - Accept accepts a connection as a Conn, and Adopt turns a connection of package net
//     into one. The runtime's poller registers a Conn only when a goroutine must wait for
//     it.
//   - IsDirect reports whether a connection writes its bytes unchanged to its socket.
//   - Poller is an epoll set for connections for which no goroutine waits (Linux only).
//
// All types are safe for concurrent use, with the exceptions that their comments state.
// Packages peer, peer/mux, proxy, proxy/h1 and node/gossip use this package on their data
// paths.
package rawio
