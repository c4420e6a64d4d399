//go:build unix

package peer

import (
	"io"
	"net"
	"sync"
	"syscall"

	"shardway/internal/rawio"
)

// raw reads and writes a socket without a word to the scheduler. A thread that is in a
// system call when the kernel gives its core to another loses what it runs goroutines
// with, and on a busy machine each write is such a moment, for it wakes who reads; the
// goroutine goes to the end of all that wait then, behind every request. And the first such
// call after the process had nothing to do wakes the runtime's monitor thread, which looks
// around fifty times then: where requests come by one connection for many, that was a seventh
// of what a node did.
type raw struct {
	*net.TCPConn
	conn  syscall.RawConn
	tries int // of the last Read

	in, out step // what is read, by one goroutine at a time; what is written, with mu held
	mu      sync.Mutex
}

// step is what is done with the socket until it has to be waited for. Bound once: it takes
// no memory each time.
type step struct {
	do  func(fd uintptr) bool
	b   []byte
	n   int
	err error
}

// newRaw returns c itself where its socket cannot be had.
func newRaw(c *net.TCPConn) readWriter {
	conn, err := c.SyscallConn()
	if err != nil {
		return c
	}
	r := &raw{TCPConn: c, conn: conn}
	r.in.do, r.out.do = r.read, r.write
	return r
}

// Read implements net.Conn.
func (r *raw) Read(b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	r.tries, r.in.b = 0, b
	waited := r.conn.Read(r.in.do)
	r.in.b = nil
	switch {
	case waited != nil:
		return 0, waited
	case r.in.err != nil:
		return 0, r.broken("read", r.in.err)
	case r.in.n == 0:
		return 0, io.EOF
	}
	return r.in.n, nil
}

func (r *raw) read(fd uintptr) bool {
	r.tries++
	r.in.n, r.in.err = rawio.Read(fd, r.in.b)
	return r.in.err != syscall.EAGAIN //nolint:errorlint // never wrapped
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
	r.mu.Lock()
	defer r.mu.Unlock()
	r.out.b, r.out.n = b, 0
	waited := r.conn.Write(r.out.do)
	n, err, r.out.b = r.out.n, r.out.err, nil
	switch {
	case waited != nil:
		return n, waited
	case err != nil:
		return n, r.broken("write", err)
	}
	return n, nil
}

func (r *raw) write(fd uintptr) bool {
	o := &r.out
	for o.err = nil; o.n < len(o.b) && o.err == nil; {
		var n int
		n, o.err = rawio.Write(fd, o.b[o.n:])
		o.n += n
	}
	return o.err != syscall.EAGAIN //nolint:errorlint // never wrapped
}

// broken is what package net makes of an error of the kernel.
func (r *raw) broken(op string, err error) error {
	return &net.OpError{Op: op, Net: "tcp", Source: r.LocalAddr(), Addr: r.RemoteAddr(), Err: err}
}
