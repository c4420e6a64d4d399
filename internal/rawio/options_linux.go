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

// rawConn implements syscall.RawConn for a Conn.
type rawConn Conn

var _ syscall.RawConn = (*rawConn)(nil)

// SyscallConn returns access to the socket.
func (c *Conn) SyscallConn() (syscall.RawConn, error) { return (*rawConn)(c), nil }

// Control calls f with the descriptor.
func (r *rawConn) Control(f func(fd uintptr)) error { return (*Conn)(r).control(f) }

// Read calls f, which must read without blocking, until f returns true. It waits for data
// between the calls.
func (r *rawConn) Read(f func(fd uintptr) bool) error {
	c := (*Conn)(r)
	return c.callUntilDone("raw-read", &c.readDeadline, f, syscall.RawConn.Read)
}

// Write is Read for writing.
func (r *rawConn) Write(f func(fd uintptr) bool) error {
	c := (*Conn)(r)
	return c.callUntilDone("raw-write", &c.writeDeadline, f, syscall.RawConn.Write)
}

// callUntilDone calls the function until it returns true. The first call is made without
// registering the connection with the poller. wait performs the other calls, each after the
// connection has become ready.
func (c *Conn) callUntilDone(op string, deadline *deadline, call func(fd uintptr) bool, wait func(syscall.RawConn, func(fd uintptr) bool) error) error {
	registered, err := c.acquire(deadline)
	if err == nil && registered == nil {
		if c.callOnce(call) {
			return nil
		}
		registered, err = c.register()
	}
	if err == nil {
		err = wait(registered.raw, call)
	}
	return c.wrap(op, err)
}

// callOnce calls the function once and then release. The caller must have called acquire.
func (c *Conn) callOnce(call func(fd uintptr) bool) bool {
	defer c.release() // even if call panics
	return call(uintptr(c.fd))
}

// control calls f with the file descriptor, which stays open until f returns.
func (c *Conn) control(f func(fd uintptr)) error {
	registered, err := c.acquire(nil)
	switch {
	case err != nil:
		return c.wrap("raw-control", err)
	case registered != nil:
		return c.wrap("raw-control", registered.raw.Control(f))
	}
	defer c.release()
	f(uintptr(c.fd))
	return nil
}

// SetDeadline sets both deadlines.
func (c *Conn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

// SetReadDeadline sets the deadline for current and future reads. Zero means no deadline.
func (c *Conn) SetReadDeadline(t time.Time) error {
	return c.setDeadline(&c.readDeadline, t, (*os.File).SetReadDeadline)
}

// SetWriteDeadline sets the deadline for current and future writes. Zero means no deadline.
func (c *Conn) SetWriteDeadline(t time.Time) error {
	return c.setDeadline(&c.writeDeadline, t, (*os.File).SetWriteDeadline)
}

// setDeadline stores the deadline until, or sets it on the file if the connection is registered. Zero means
// no deadline.
func (c *Conn) setDeadline(stored *deadline, until time.Time, setOnFile func(*os.File, time.Time) error) error {
	if registered := c.polled.Load(); registered != nil {
		return c.wrap("set", setOnFile(registered.file, until))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch registered := c.polled.Load(); {
	case c.closed.Load():
		return c.wrap("set", net.ErrClosed)
	case registered != nil:
		return c.wrap("set", setOnFile(registered.file, until))
	}
	*stored = deadline{time: until, expired: !until.IsZero() && time.Until(until) <= 0}
	return nil
}

// CloseWrite closes the sending side.
func (c *Conn) CloseWrite() error {
	var failed error
	err := c.control(func(fd uintptr) { failed = unix.Shutdown(int(fd), unix.SHUT_WR) })
	return errors.Join(err, failed)
}

// SetLinger sets how Close handles unsent data. Zero discards it and resets the connection.
func (c *Conn) SetLinger(sec int) error {
	linger := unix.Linger{Linger: int32(sec)}
	if sec >= 0 {
		linger.Onoff = 1
	} else {
		linger.Linger = 0
	}
	var failed error
	err := c.control(func(fd uintptr) { failed = unix.SetsockoptLinger(int(fd), unix.SOL_SOCKET, unix.SO_LINGER, &linger) })
	return errors.Join(err, failed)
}
