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

// socket reads from and writes to the kernel socket of a net.Conn directly. Unlike net.Conn.Read,
// it can borrow a buffer once data has arrived, and can read without blocking. RawConn.Read waits
// in the runtime's poller like net.Conn.Read, and costs the same. Only one goroutine may read at a
// time, and only one may write.
type socket struct {
	raw          syscall.RawConn
	readFunc     func(fd uintptr) bool // s.read, created by bindMethods
	readOnceFunc func(fd uintptr)      // s.readOnce, created by bindMethods
	writes       socketWrite           // the current write
	pool         *Buffers              // source of borrowed buffers
	bufferSize   int                   // size of a borrowed buffer in bytes

	// Arguments of the current read.
	buf               []byte  // memory for the data; nil means that a buffer must be borrowed
	mayWait           bool    // wait in the poller if no data has arrived
	closeWriteIfEmpty bool    // close the sending side if there is nothing to read
	sendBeforeRead    *Writer // its data is sent before read waits; nil means none

	// Results of the current read.
	received int // bytes that were read into buf
	err      error
}

// newSocket returns a socket for nc, or nil if nc must be read with its Read method. If reused is
// not nil, newSocket reuses its memory.
func newSocket(reused *socket, nc net.Conn, options *Options) *socket {
	socketConn, ok := nc.(syscall.Conn)
	if !ok {
		return nil
	}
	switch nc.(type) {
	case *net.TCPConn, *net.UnixConn:
	default:
		if !options.Direct {
			return nil
		}
	}
	raw, err := socketConn.SyscallConn()
	if err != nil {
		return nil
	}
	sock := reused
	if sock == nil {
		sock = &socket{}
		sock.bindMethods()
	}
	sock.raw, sock.writes.nc = raw, nc
	sock.pool, sock.bufferSize = options.Buffers, options.ReadBuffer
	return sock
}

// bindMethods creates the method values that are passed to raw. Each of them allocates, so they are
// created once and reused.
func (s *socket) bindMethods() {
	s.readFunc, s.readOnceFunc = s.read, s.readOnce
	s.writes.writeFunc, s.writes.writeOnceFunc = s.writes.write, s.writes.writeOnce
}

// setStopFlag installs the flag through which StopWrite stops writes to this socket.
func (s *socket) setStopFlag(stopped *atomic.Bool) { s.writes.stopped = stopped }

// clear resets everything except the method values of bindMethods.
func (s *socket) clear() {
	writes := socketWrite{writeFunc: s.writes.writeFunc, writeOnceFunc: s.writes.writeOnceFunc}
	*s = socket{readFunc: s.readFunc, readOnceFunc: s.readOnceFunc, writes: writes}
}

// receive reads into p, or into a borrowed buffer if p is nil. It returns the buffer that contains
// the n bytes. If n is 0, no buffer is borrowed. Unless wait is set, n == 0 without an error means
// that no data has arrived.
func (s *socket) receive(p []byte, wait bool) ([]byte, int, error) {
	s.buf, s.mayWait, s.received, s.err = p, wait, 0, nil
	err := s.raw.Read(s.readFunc)
	buf, n := s.buf, s.received
	s.buf = nil
	if err == nil {
		err = s.err
	}
	return buf, n, err
}

// receiveNonblock is like receive without wait. It ignores the read deadline.
func (s *socket) receiveNonblock(p []byte) ([]byte, int, error) {
	s.buf, s.mayWait, s.received, s.err = p, false, 0, nil
	err := s.raw.Control(s.readOnceFunc)
	buf, n := s.buf, s.received
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

// readOnce is the function of raw.Control: it reads once and does not wait.
func (s *socket) readOnce(fd uintptr) { s.read(fd) }

// read is the function of raw.Read: it reads once, and returns false to wait in the poller.
func (s *socket) read(fd uintptr) bool {
	if w := s.sendBeforeRead; w != nil {
		s.sendBeforeRead = nil
		sentAll, err := w.sendFirst(fd)
		s.err = err
		return err != nil || !sentAll
	}
	borrowed := s.buf == nil
	if borrowed {
		s.buf = s.pool.get(s.bufferSize)
	}
	n, err := rawio.Read(fd, s.buf)
	if n > 0 {
		s.received = n
		return true
	}
	if borrowed {
		s.pool.put(s.buf)
		s.buf = nil
	}
	if err == syscall.EAGAIN { //nolint:errorlint // never wrapped
		if s.closeWriteIfEmpty { // no data has arrived
			_ = syscall.Shutdown(int(fd), syscall.SHUT_WR) // an error does not matter, because the connection is closed next
		}
		return !s.mayWait
	}
	if err == nil {
		err = io.EOF
	}
	s.err = err
	return true
}

// closeWriteIfSilent reports whether no data has arrived, or only the end of the stream. It may
// consume a byte, so no other read may follow. If no data has arrived, it closes the sending side,
// which also sends data that the kernel has delayed. If the peer sends data after that, it still
// receives the response before the reset.
func (s *socket) closeWriteIfSilent(p []byte) bool {
	s.closeWriteIfEmpty = true
	defer func() { s.closeWriteIfEmpty = false }()
	_, n, err := s.receive(p[:1], false)
	return n == 0 && (err == nil || errors.Is(err, io.EOF))
}

// socketWrite is one write to a socket. It sets a deadline only when the socket accepts no more
// data, because setting one costs more than most writes.
type socketWrite struct {
	nc            net.Conn
	stopped       *atomic.Bool          // the flag that Conn.StopWrite sets; nil means that there is none
	writeFunc     func(fd uintptr) bool // sw.write, created by bindMethods
	writeOnceFunc func(fd uintptr)      // sw.writeOnce, created by bindMethods

	// Arguments of the current write.
	data   []byte
	isLast bool          // the connection is closed as soon as all data has been accepted
	limit  time.Duration // how long the socket may accept no data; zero means no limit

	// Results of the current write.
	deadlineSet bool // nc has a write deadline for this write
	written     int  // bytes of data that the socket has accepted
	err         error
}

// send writes p and waits until the socket has accepted all of it. limit is the maximum time for
// which it waits; zero means no limit. It returns the number of accepted bytes.
func (s *socket) send(p []byte, limit time.Duration) (int, error) {
	sw := &s.writes
	sw.data, sw.limit, sw.deadlineSet, sw.written, sw.err = p, limit, false, 0, nil
	err := s.raw.Write(sw.writeFunc)
	sw.data = nil
	if err == nil {
		err = sw.err
	}
	if sw.deadlineSet {
		_ = setWriteDeadline(sw.nc, sw.stopped, time.Time{}) // if it fails, the next write fails too
	}
	return sw.written, err
}

// sendNonblock writes the part of p that the socket accepts without blocking, and returns its
// length.
func (s *socket) sendNonblock(p []byte) (int, error) {
	sw := &s.writes
	sw.data, sw.written, sw.err = p, 0, nil
	err := s.raw.Control(sw.writeOnceFunc)
	sw.data = nil
	if err == nil {
		err = sw.err
	}
	return sw.written, err
}

// writeOnce is the function of raw.Control: it writes once and does not wait.
func (sw *socketWrite) writeOnce(fd uintptr) {
	n, err := sw.writeSome(fd)
	if err != syscall.EAGAIN { //nolint:errorlint // never wrapped
		sw.err = err
	}
	sw.written = n
}

// setLast sets whether the connection is closed right after the next write.
func (s *socket) setLast(last bool) { s.writes.isLast = last }

// write is the function of raw.Write: it writes until the socket accepts no more data, and returns
// false to wait in the poller.
func (sw *socketWrite) write(fd uintptr) bool {
	for sw.written < len(sw.data) {
		n, err := sw.writeSome(fd)
		sw.written += n
		if err == syscall.EAGAIN { //nolint:errorlint // never wrapped
			return !sw.startWait()
		}
		if err != nil {
			sw.err = err
			return true
		}
	}
	return true
}

// writeSome writes the data that the socket accepts. The kernel delays the last data of a
// connection until the FIN, which saves a segment and a wake-up of the peer.
func (sw *socketWrite) writeSome(fd uintptr) (int, error) {
	if sw.isLast {
		return rawio.WriteMore(fd, sw.data[sw.written:])
	}
	return rawio.Write(fd, sw.data[sw.written:])
}

// startWait sets the deadline when the write has to wait for the first time. It returns false if
// that fails, because the write must not wait without a deadline.
func (sw *socketWrite) startWait() bool {
	if !sw.deadlineSet && sw.limit > 0 {
		sw.deadlineSet = true
		sw.err = setWriteDeadline(sw.nc, sw.stopped, time.Now().Add(sw.limit))
	}
	return sw.err == nil
}

// noLinger makes closing a TCP socket below a wrapper send a reset.
func noLinger(nc net.Conn) {
	socketConn, ok := nc.(syscall.Conn)
	if !ok {
		return
	}
	raw, err := socketConn.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) { // an error does not matter, because the connection is closed next
		_ = syscall.SetsockoptLinger(int(fd), syscall.SOL_SOCKET, syscall.SO_LINGER, &syscall.Linger{Onoff: 1})
	})
}
