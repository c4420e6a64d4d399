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

// socket reads and writes a kernel socket below its net.Conn. It can do what
// Read cannot: borrow the buffer only once there is something to read, and try
// without waiting. RawConn.Read waits in the runtime's poller as Read does, and
// costs the same. One goroutine reads at a time, one writes.
type socket struct {
	raw            syscall.RawConn
	step           func(fd uintptr) bool // s.read, bound once
	once           func(fd uintptr)      // s.readOnce, bound once
	out            socketWrite
	sendBeforeRead *Writer // what read sends before it waits; nil: nothing
	pool           *Buffers
	size           int

	buf        []byte // nil means that a buffer must be borrowed
	wait       bool
	endIfEmpty bool // close the sending side at once if there is nothing to read
	n          int
	err        error
}

// newSocket returns nil when nc has to be read through its Read. It may use the memory of
// one that has been forgotten; nil: there is none.
func newSocket(over *socket, nc net.Conn, o *Options) *socket {
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
	s := over
	if s == nil {
		s = &socket{}
		s.step, s.once, s.out.step, s.out.once = s.read, s.readOnce, s.out.write, s.out.writeOnce
	}
	s.raw, s.out.nc, s.pool, s.size = raw, nc, o.Buffers, o.ReadBuffer
	return s
}

// setStopFlag sets the flag that StopWrite sets for this socket.
func (s *socket) setStopFlag(stopped *atomic.Bool) { s.out.stopped = stopped }

// clear resets everything except the bound methods.
func (s *socket) clear() {
	*s = socket{step: s.step, once: s.once, out: socketWrite{step: s.out.step, once: s.out.once}}
}

// receive reads into p, or into a borrowed buffer when p is nil. It returns
// the buffer that holds the n bytes; none is borrowed when n is 0. Without
// wait, n = 0 and no error mean that nothing is there yet.
func (s *socket) receive(p []byte, wait bool) ([]byte, int, error) {
	s.buf, s.wait, s.n, s.err = p, wait, 0, nil
	err := s.raw.Read(s.step)
	buf, n := s.buf, s.n
	s.buf = nil
	if err == nil {
		err = s.err
	}
	return buf, n, err
}

// receiveNonblock is receive without waiting, and whatever the deadline is: nobody waits for it.
func (s *socket) receiveNonblock(p []byte) ([]byte, int, error) {
	s.buf, s.wait, s.n, s.err = p, false, 0, nil
	err := s.raw.Control(s.once)
	buf, n := s.buf, s.n
	s.buf = nil
	if err == nil {
		err = s.err
	}
	return buf, n, err
}

// sendCheckedNonblock sends what w has as sendFirst does, and leaves what the socket does not take.
func (s *socket) sendCheckedNonblock(w *Writer) error {
	s.sendBeforeRead, s.err = w, nil
	if err := s.raw.Control(s.once); err != nil {
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
		if s.endIfEmpty {
			_ = syscall.Shutdown(int(fd), syscall.SHUT_WR) // the connection is closed next in any case
		}
		return !s.wait
	}
	if err == nil {
		err = io.EOF
	}
	s.err = err
	return true
}

// endIfSilent reports whether there is nothing to read, or the end. It must be the last read,
// because it consumes a byte. If there is nothing to read, it closes the sending side, which also
// sends the data that the kernel has kept. A peer that sends after that gets its response first,
// and then a reset.
func (s *socket) endIfSilent(p []byte) bool {
	s.endIfEmpty = true
	defer func() { s.endIfEmpty = false }()
	_, n, err := s.receive(p[:1], false)
	return n == 0 && (err == nil || errors.Is(err, io.EOF))
}

// socketWrite is one write. It sets a deadline only while the socket accepts nothing, because that
// costs more than most writes.
type socketWrite struct {
	nc   net.Conn
	step func(fd uintptr) bool // o.write, bound once
	once func(fd uintptr)      // o.writeOnce, bound once

	p     []byte
	last  bool          // the connection is closed as soon as all of p has been accepted
	limit time.Duration // how long the socket may accept nothing; zero means no limit
	armed bool
	n     int
	err   error
	// stopped is the flag of Conn.StopWrite.
	stopped *atomic.Bool
}

// send writes p, and waits until the socket has taken all of it, for limit at most
// once it does not; zero: for ever. It returns how much that was.
func (s *socket) send(p []byte, limit time.Duration) (int, error) {
	o := &s.out
	o.p, o.limit, o.armed, o.n, o.err = p, limit, false, 0, nil
	err := s.raw.Write(o.step)
	o.p = nil
	if err == nil {
		err = o.err
	}
	if o.armed {
		_ = setWriteDeadline(o.nc, o.stopped, time.Time{}) // if it fails, the next write fails too
	}
	return o.n, err
}

// sendNonblock writes what the socket takes of p at once.
func (s *socket) sendNonblock(p []byte) (int, error) {
	o := &s.out
	o.p, o.n, o.err = p, 0, nil
	err := s.raw.Control(o.once)
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
func (s *socket) setLast(yes bool) { s.out.last = yes }

func (o *socketWrite) write(fd uintptr) bool {
	for o.n < len(o.p) {
		n, err := o.writeSome(fd)
		o.n += n
		if err == syscall.EAGAIN { //nolint:errorlint // never wrapped
			return !o.arm()
		}
		if err != nil {
			o.err = err
			return true
		}
	}
	return true
}

// writeSome writes what the socket accepts. The last data waits there for the end of the
// connection, which saves a segment, and a wake-up of the peer.
func (o *socketWrite) writeSome(fd uintptr) (int, error) {
	if o.last {
		return rawio.WriteMore(fd, o.p[o.n:])
	}
	return rawio.Write(fd, o.p[o.n:])
}

// arm sets the deadline when the write must wait for the first time. It reports false if the write
// cannot wait.
func (o *socketWrite) arm() bool {
	if !o.armed && o.limit > 0 {
		o.armed = true
		o.err = setWriteDeadline(o.nc, o.stopped, time.Now().Add(o.limit))
	}
	return o.err == nil
}

// noLinger makes closing nc a reset where it is TCP below a wrapper.
func noLinger(nc net.Conn) {
	sc, ok := nc.(syscall.Conn)
	if !ok {
		return
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) { // the connection is closed next in any case
		_ = syscall.SetsockoptLinger(int(fd), syscall.SOL_SOCKET, syscall.SO_LINGER, &syscall.Linger{Onoff: 1})
	})
}
