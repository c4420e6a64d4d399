//go:build !unix

package peer

import "net"

// newRawConn exists only where sockets can be read below their net.Conn.
func newRawConn(conn *net.TCPConn) readWriter { return conn }
