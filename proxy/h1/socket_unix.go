//go:build unix

package h1

import (
	"errors"
	"io"
	"net"
	"sync/atomic"
	"syscall"
	"time"

	"shardway/internal/rawio"
)

// socket reads from and writes to the kernel socket of a net.Conn directly. In contrast to
// net.Conn.Read, it can borrow a buffer after data has arrived, and read without blocking.
// RawConn.Read waits in the runtime's poller like net.Conn.Read, and costs the same. At most one
// goroutine reads at a time, and at most one writes.
type socket struct {
	raw            syscall.RawConn
	readFunc       func(fd uintptr) bool // s.read, bound once
	readOnceFunc   func(fd uintptr)      // s.readOnce, bound once
	out            socketWrite
	sendBeforeRead *Writer // its data is sent before read waits; nil means none
	pool           *Buffers
	size           int

	buf               []byte // nil means that a buffer must be borrowed
	wait              bool
	closeWriteIfEmpty bool // close the sending side if there is nothing to read
	n                 int
	err               error
}

// newSocket returns a socket for nc, or nil if nc must be read with its Read method. It reuses the
// memory of over, unless that is nil.
func newSocket(reused *socket, nc net.Conn, o *Options) *socket {
	sc, ok := nc.(syscall.Conn)
	if !ok {
		return nil
	}
	switch nc.(type) {
	case *net.TCPConn, *net.UnixConn:
	default:
		if !o.Direct {
			return nil
		}
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return nil
	}
	s := reused
	if s == nil {
		s = &socket{}
		s.readFunc, s.readOnceFunc, s.out.writeFunc, s.out.writeOnceFunc = s.read, s.readOnce, s.out.write, s.out.writeOnce
	}
	s.raw, s.out.nc, s.pool, s.size = raw, nc, o.Buffers, o.ReadBuffer
	return s
}

// setStopFlag sets the flag that StopWrite sets for this socket.
func (s *socket) setStopFlag(stopped *atomic.Bool) { s.out.stopped = stopped }

// clear resets everything except the bound methods.
func (s *socket) clear() {
	*s = socket{readFunc: s.readFunc, readOnceFunc: s.readOnceFunc, out: socketWrite{writeFunc: s.out.writeFunc, writeOnceFunc: s.out.writeOnceFunc}}
}

// receive reads into p, or into a borrowed buffer if p is nil. It returns the buffer that contains
// the n bytes. If n is 0, no buffer is borrowed. Without wait, n = 0 without an error means that no
// data has arrived.
func (s *socket) receive(p []byte, wait bool) ([]byte, int, error) {
	s.buf, s.wait, s.n, s.err = p, wait, 0, nil
	err := s.raw.Read(s.readFunc)
	buf, n := s.buf, s.n
	s.buf = nil
	if err == nil {
		err = s.err
	}
	return buf, n, err
}

// receiveNonblock is like receive without wait. It ignores the read deadline.
func (s *socket) receiveNonblock(p []byte) ([]byte, int, error) {
	s.buf, s.wait, s.n, s.err = p, false, 0, nil
	err := s.raw.Control(s.readOnceFunc)
	buf, n := s.buf, s.n
	s.buf = nil
	if err == nil {
		err = s.err
	}
	return buf, n, err
}

// sendCheckedNonblock checks the connection and sends the data of w like sendFirst. Data that the
// socket does not accept stays in the buffer.
func (s *socket) sendCheckedNonblock(w *Writer) error {
	s.sendBeforeRead, s.err = w, nil
	if err := s.raw.Control(s.readOnceFunc); err != nil {
		s.sendBeforeRead = nil
		return err
	}
	return s.err
}

func (s *socket) readOnce(fd uintptr) { s.read(fd) }

func (s *socket) read(fd uintptr) bool {
	if w := s.sendBeforeRead; w != nil {
		s.sendBeforeRead = nil
		whole, err := w.sendFirst(fd)
		s.err = err
		return err != nil || !whole
	}
	borrowed := s.buf == nil
	if borrowed {
		s.buf = s.pool.get(s.size)
	}
	n, err := rawio.Read(fd, s.buf)
	if n > 0 {
		s.n = n
		return true
	}
	if borrowed {
		s.pool.put(s.buf)
		s.buf = nil
	}
	if err == syscall.EAGAIN { //nolint:errorlint // never wrapped
		if s.closeWriteIfEmpty {
			_ = syscall.Shutdown(int(fd), syscall.SHUT_WR) // an error does not matter, because the connection is closed next
		}
		return !s.wait
	}
	if err == nil {
		err = io.EOF
	}
	s.err = err
	return true
}

// closeWriteIfSilent reports whether no data has arrived, or only the end of the stream. It may
// consume a byte, so no other read may follow. If no data has arrived, it closes the sending side,
// and thereby sends the data that the kernel has delayed. If the peer sends data after that, it
// receives the response first, and then a reset.
func (s *socket) closeWriteIfSilent(p []byte) bool {
	s.closeWriteIfEmpty = true
	defer func() { s.closeWriteIfEmpty = false }()
	_, n, err := s.receive(p[:1], false)
	return n == 0 && (err == nil || errors.Is(err, io.EOF))
}

// socketWrite is one write to a socket. It sets a deadline only when the socket does not accept
// more data, because setting a deadline costs more than most writes.
type socketWrite struct {
	nc            net.Conn
	writeFunc     func(fd uintptr) bool // o.write, bound once
	writeOnceFunc func(fd uintptr)      // o.writeOnce, bound once

	p           []byte
	isLast      bool          // the connection is closed as soon as all of p has been accepted
	limit       time.Duration // how long the socket may accept no data; zero means no limit
	deadlineSet bool
	n           int
	err         error
	// stopped is the flag of Conn.StopWrite.
	stopped *atomic.Bool
}

// send writes p and waits until the socket has accepted all of it. limit is the maximum time for
// which it waits; zero means no limit. It returns the number of accepted bytes.
func (s *socket) send(p []byte, limit time.Duration) (int, error) {
	o := &s.out
	o.p, o.limit, o.deadlineSet, o.n, o.err = p, limit, false, 0, nil
	err := s.raw.Write(o.writeFunc)
	o.p = nil
	if err == nil {
		err = o.err
	}
	if o.deadlineSet {
		_ = setWriteDeadline(o.nc, o.stopped, time.Time{}) // if it fails, the next write fails too
	}
	return o.n, err
}

// sendNonblock writes the part of p that the socket accepts without blocking, and returns its
// length.
func (s *socket) sendNonblock(p []byte) (int, error) {
	o := &s.out
	o.p, o.n, o.err = p, 0, nil
	err := s.raw.Control(o.writeOnceFunc)
	o.p = nil
	if err == nil {
		err = o.err
	}
	return o.n, err
}

func (o *socketWrite) writeOnce(fd uintptr) {
	n, err := o.writeSome(fd)
	if err != syscall.EAGAIN { //nolint:errorlint // never wrapped
		o.err = err
	}
	o.n = n
}

// setLast sets whether the connection is closed right after the next write.
func (s *socket) setLast(yes bool) { s.out.isLast = yes }

func (o *socketWrite) write(fd uintptr) bool {
	for o.n < len(o.p) {
		n, err := o.writeSome(fd)
		o.n += n
		if err == syscall.EAGAIN { //nolint:errorlint // never wrapped
			return !o.startWait()
		}
		if err != nil {
			o.err = err
			return true
		}
	}
	return true
}

// writeSome writes the data that the socket accepts. The kernel delays the last data of a
// connection until the FIN, which saves a segment and a wake-up of the peer.
func (o *socketWrite) writeSome(fd uintptr) (int, error) {
	if o.isLast {
		return rawio.WriteMore(fd, o.p[o.n:])
	}
	return rawio.Write(fd, o.p[o.n:])
}

// startWait sets the deadline when the write has to wait for the first time. It returns false if
// that fails, because the write must not wait without a deadline.
func (o *socketWrite) startWait() bool {
	if !o.deadlineSet && o.limit > 0 {
		o.deadlineSet = true
		o.err = setWriteDeadline(o.nc, o.stopped, time.Now().Add(o.limit))
	}
	return o.err == nil
}

// noLinger makes the close of a TCP socket below a wrapper send a reset.
func noLinger(nc net.Conn) {
	sc, ok := nc.(syscall.Conn)
	if !ok {
		return
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) { // an error does not matter, because the connection is closed next
		_ = syscall.SetsockoptLinger(int(fd), syscall.SOL_SOCKET, syscall.SO_LINGER, &syscall.Linger{Onoff: 1})
	})
}
