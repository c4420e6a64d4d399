//go:build unix

package peer

import (
	"io"
	"net"
	"syscall"

	"shardway/internal/rawio"
)

var (
	_ immediateReader = (*rawConn)(nil)
	_ lookahead       = (*rawConn)(nil)
)

// rawConn reads and writes a socket without entering the scheduler: see rawio.Stream.
type rawConn struct {
	*net.TCPConn
	conn   syscall.RawConn
	stream rawio.Stream
}

// newRaw returns c itself if its socket is not accessible.
func newRaw(c *net.TCPConn) readWriter {
	conn, err := c.SyscallConn()
	if err != nil {
		return c
	}
	rc := &rawConn{TCPConn: c, conn: conn}
	rc.stream.Open(conn)
	return rc
}

// Read implements net.Conn.
func (rc *rawConn) Read(b []byte) (int, error) {
	n, err := rc.stream.Read(b)
	return n, rc.broken("read", err)
}

// ReadImmediately reports whether the last Read found data, or the end, without waiting.
func (rc *rawConn) ReadImmediately() bool { return rc.stream.Tries() == 1 }

// Look reads pending data without waiting. there is false if there is none.
func (rc *rawConn) Look(b []byte) (n int, there bool, err error) {
	if len(b) == 0 {
		return 0, true, nil
	}
	closed := rc.conn.Control(func(fd uintptr) { n, err = rawio.Read(fd, b) })
	switch {
	case closed != nil:
		return 0, true, closed
	case err == syscall.EAGAIN: //nolint:errorlint // never wrapped
		return 0, false, nil
	case err != nil:
		return 0, true, rc.broken("read", err)
	case n == 0:
		return 0, true, io.EOF
	}
	return n, true, nil
}

// Write implements net.Conn.
func (rc *rawConn) Write(b []byte) (int, error) {
	n, err := rc.stream.Write(b)
	return n, rc.broken("write", err)
}

// broken wraps an error of the kernel as package net does.
func (rc *rawConn) broken(op string, err error) error {
	if _, kernels := err.(syscall.Errno); !kernels { //nolint:errorlint // never wrapped
		return err
	}
	return &net.OpError{Op: op, Net: "tcp", Source: rc.LocalAddr(), Addr: rc.RemoteAddr(), Err: err}
}
