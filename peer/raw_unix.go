//go:build unix

package peer

import (
	"io"
	"net"
	"syscall"

	"shardway/internal/rawio"
)

var (
	_ immediateReader   = (*rawConn)(nil)
	_ nonBlockingReader = (*rawConn)(nil)
)

// rawConn reads and writes a socket without entering the scheduler: see rawio.Stream.
type rawConn struct {
	*net.TCPConn
	conn   syscall.RawConn
	stream rawio.Stream
}

// newRawConn returns a rawConn for a connection. It returns the connection itself if its socket is
// not accessible.
func newRawConn(tcpConn *net.TCPConn) readWriter {
	conn, err := tcpConn.SyscallConn()
	if err != nil {
		return tcpConn
	}
	rc := &rawConn{TCPConn: tcpConn, conn: conn}
	rc.stream.Open(conn)
	return rc
}

// Read implements net.Conn.
func (rc *rawConn) Read(b []byte) (int, error) {
	n, err := rc.stream.Read(b)
	return n, rc.wrapErrno("read", err)
}

// ReadImmediately reports whether the last Read found data, or the end, without waiting.
func (rc *rawConn) ReadImmediately() bool { return rc.stream.ReadAttempts() == 1 }

// TryRead reads pending data without waiting. ready is false if there is none.
func (rc *rawConn) TryRead(b []byte) (n int, ready bool, err error) {
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
		return 0, true, rc.wrapErrno("read", err)
	case n == 0:
		return 0, true, io.EOF
	}
	return n, true, nil
}

// Write implements net.Conn.
func (rc *rawConn) Write(b []byte) (int, error) {
	n, err := rc.stream.Write(b)
	return n, rc.wrapErrno("write", err)
}

// wrapErrno wraps an error of the kernel as package net does.
func (rc *rawConn) wrapErrno(op string, err error) error {
	if _, isErrno := err.(syscall.Errno); !isErrno { //nolint:errorlint // never wrapped
		return err
	}
	return &net.OpError{Op: op, Net: "tcp", Source: rc.LocalAddr(), Addr: rc.RemoteAddr(), Err: err}
}
