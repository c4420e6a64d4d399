// Package rawio reads and writes sockets that do not block, where the scheduler need
// not know: for functions of a syscall.RawConn. The calls never wait. Accept takes a
// connection that waits at a listening socket, and makes it a Conn, of which the runtime's
// poller need not know either until somebody waits for it. A Lookout watches sockets for which
// nobody waits.
package rawio
