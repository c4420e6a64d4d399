//go:build unix

package peer

import (
	"io"
	"net"
	"syscall"

	"shardway/internal/rawio"
)

// raw reads and writes a socket without a word to the scheduler. A thread that is in a
// system call when the kernel gives its core to another loses what it runs goroutines
// with, and on a busy machine each write is such a moment, for it wakes who reads; the
// goroutine goes to the end of all that wait then, behind every request.
type raw struct {
	*net.TCPConn
	conn  syscall.RawConn
	tries int // of the last Read
}

// newRaw returns c itself where its socket cannot be had.
func newRaw(c *net.TCPConn) readWriter {
	conn, err := c.SyscallConn()
	if err != nil {
		return c
	}
	return &raw{TCPConn: c, conn: conn}
}

// Read implements net.Conn.
func (r *raw) Read(b []byte) (n int, err error) {
	if len(b) == 0 {
		return 0, nil
	}
	r.tries = 0
	waited := r.conn.Read(func(fd uintptr) bool {
		r.tries++
		n, err = rawio.Read(fd, b)
		return err != syscall.EAGAIN //nolint:errorlint // never wrapped
	})
	switch {
	case waited != nil:
		return 0, waited
	case err != nil:
		return 0, r.broken("read", err)
	case n == 0:
		return 0, io.EOF
	}
	return n, nil
}

// AtOnce reports whether the last Read found something, or an end, as it began.
func (r *raw) AtOnce() bool { return r.tries == 1 }

// Look reads what is there, without waiting; there is false if nothing is.
func (r *raw) Look(b []byte) (n int, there bool, err error) {
	if len(b) == 0 {
		return 0, true, nil
	}
	closed := r.conn.Control(func(fd uintptr) { n, err = rawio.Read(fd, b) })
	switch {
	case closed != nil:
		return 0, true, closed
	case err == syscall.EAGAIN: //nolint:errorlint // never wrapped
		return 0, false, nil
	case err != nil:
		return 0, true, r.broken("read", err)
	case n == 0:
		return 0, true, io.EOF
	}
	return n, true, nil
}

// Write implements net.Conn.
func (r *raw) Write(b []byte) (n int, err error) {
	waited := r.conn.Write(func(fd uintptr) bool {
		for err = nil; n < len(b) && err == nil; {
			var m int
			m, err = rawio.Write(fd, b[n:])
			n += m
		}
		return err != syscall.EAGAIN //nolint:errorlint // never wrapped
	})
	switch {
	case waited != nil:
		return n, waited
	case err != nil:
		return n, r.broken("write", err)
	}
	return n, nil
}

// broken is what package net makes of an error of the kernel.
func (r *raw) broken(op string, err error) error {
	return &net.OpError{Op: op, Net: "tcp", Source: r.LocalAddr(), Addr: r.RemoteAddr(), Err: err}
}
