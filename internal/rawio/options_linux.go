//go:build linux && (amd64 || arm64)

package rawio

import (
	"errors"
	"net"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// rawConn is a Conn as a syscall.RawConn.
type rawConn Conn

var _ syscall.RawConn = (*rawConn)(nil)

// SyscallConn gives access to the socket.
func (c *Conn) SyscallConn() (syscall.RawConn, error) { return (*rawConn)(c), nil }

// Control calls f with the socket.
func (r *rawConn) Control(f func(fd uintptr)) error { return (*Conn)(r).control(f) }

// Read calls f, which reads without waiting, until it says that it is done, and waits in
// between.
func (r *rawConn) Read(f func(fd uintptr) bool) error {
	c := (*Conn)(r)
	return c.await("raw-read", &c.reading, f, syscall.RawConn.Read)
}

// Write is Read for writing.
func (r *rawConn) Write(f func(fd uintptr) bool) error {
	c := (*Conn)(r)
	return c.await("raw-write", &c.writing, f, syscall.RawConn.Write)
}

// await calls f, at first without the poller.
func (c *Conn) await(op string, d *deadline, f func(fd uintptr) bool, wait func(syscall.RawConn, func(fd uintptr) bool) error) error {
	known, err := c.enter(d)
	if err == nil && known == nil {
		if c.step(f) {
			return nil
		}
		known, err = c.meet()
	}
	if err == nil {
		err = wait(known.raw, f)
	}
	return c.wrap(op, err)
}

// step calls f once, between enter and leave.
func (c *Conn) step(f func(fd uintptr) bool) bool {
	defer c.leave() // even if f panics
	return f(uintptr(c.fd))
}

func (c *Conn) control(f func(fd uintptr)) error {
	known, err := c.enter(nil)
	switch {
	case err != nil:
		return c.wrap("raw-control", err)
	case known != nil:
		return c.wrap("raw-control", known.raw.Control(f))
	}
	defer c.leave()
	f(uintptr(c.fd))
	return nil
}

// SetDeadline sets both deadlines.
func (c *Conn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

// SetReadDeadline bounds reading, also what waits already; zero: no bound.
func (c *Conn) SetReadDeadline(t time.Time) error {
	return c.bound(&c.reading, t, (*os.File).SetReadDeadline)
}

// SetWriteDeadline is SetReadDeadline for writing.
func (c *Conn) SetWriteDeadline(t time.Time) error {
	return c.bound(&c.writing, t, (*os.File).SetWriteDeadline)
}

func (c *Conn) bound(d *deadline, t time.Time, tell func(*os.File, time.Time) error) error {
	if p := c.known.Load(); p != nil {
		return c.wrap("set", tell(p.file, t))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch p := c.known.Load(); {
	case c.closed.Load():
		return c.wrap("set", net.ErrClosed)
	case p != nil:
		return c.wrap("set", tell(p.file, t))
	}
	*d = deadline{at: t, past: !t.IsZero() && time.Until(t) <= 0}
	return nil
}

// CloseWrite ends the sending side.
func (c *Conn) CloseWrite() error {
	var failed error
	err := c.control(func(fd uintptr) { failed = unix.Shutdown(int(fd), unix.SHUT_WR) })
	return errors.Join(err, failed)
}

// SetLinger sets what closing does with what has not been sent: zero drops it, and resets
// the connection.
func (c *Conn) SetLinger(sec int) error {
	l := unix.Linger{Linger: int32(sec)}
	if sec >= 0 {
		l.Onoff = 1
	} else {
		l.Linger = 0
	}
	var failed error
	err := c.control(func(fd uintptr) { failed = unix.SetsockoptLinger(int(fd), unix.SOL_SOCKET, unix.SO_LINGER, &l) })
	return errors.Join(err, failed)
}
