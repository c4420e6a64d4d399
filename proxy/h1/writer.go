package h1

import (
	"net"
	"strconv"
	"sync/atomic"
	"time"
)

// Writer is the writing half of a Conn: it puts heads and bodies into one
// buffer and sends them together. One message is written at a time; one
// goroutine owns it.
//
// Nothing leaves before Flush, Close, or a Write or Copy that finds the buffer
// full or the source empty. Errors stay.
type Writer struct {
	nc      net.Conn
	sock    *socket // nil: write through nc
	pool    *Buffers
	timeout time.Duration

	buf          []byte
	n            int // bytes in buf
	sent         int64
	until        time.Time // the deadline that is set; zero: none
	precondition func() (time.Duration, error)
	rest         time.Duration // of what sendFirst leaves to be sent
	look         [1]byte       // for sendFirst
	err          error
	nonblocking  bool // by Now

	kind  Kind
	left  int64       // to be written of a body of known length
	reset atomic.Bool // Close has to cut, not to end
	// stopped is set by StopWrite: every write deadline from then on is past.
	stopped atomic.Bool
}

// Put appends p to what is to be sent, as it is: heads of our own. It only
// buffers.
func (w *Writer) Put(p []byte) {
	w.reserve(len(p))
	w.n += copy(w.buf[w.n:], p)
}

// PutString is Put for a string.
func (w *Writer) PutString(s string) {
	w.reserve(len(s))
	w.n += copy(w.buf[w.n:], s)
}

// Reserve makes room for n bytes of body, so that they leave together with what is
// buffered already and not before Flush or Close.
func (w *Writer) Reserve(n int) { w.reserve(n) }

// Begin starts a body: size bytes of it if kind is Length. WriteRequestHeader
// and WriteResponseHeader have done so.
func (w *Writer) Begin(kind Kind, size int64) {
	w.kind, w.left = kind, 0
	if kind == Length {
		w.left = size
	}
}

// Kind returns how the body being written ends; NoBody between two messages.
// After UntilClose the connection has to be closed.
func (w *Writer) Kind() Kind { return w.kind }

// Pending returns the number of bytes that are buffered and not sent.
func (w *Writer) Pending() int { return w.n }

// Unsent returns the bytes that are buffered and not sent. It is valid until
// the next write.
func (w *Writer) Unsent() []byte { return w.buf[:w.n] }

// Discard drops what is buffered, of an attempt that will not be made. If
// nothing of the message was sent, another one may begin.
func (w *Writer) Discard() { w.n, w.kind, w.left, w.precondition = 0, NoBody, 0, nil }

// SetPrecondition has f asked once, right before the next byte goes to the socket: for
// how long that write may take (zero: no bound of its own), or why it must not
// happen.
func (w *Writer) SetPrecondition(f func() (time.Duration, error)) { w.precondition = f }

// Write writes some of the body. Small writes are put together; a full buffer
// is sent.
func (w *Writer) Write(p []byte) (int, error) {
	if w.kind == Length && int64(len(p)) > w.left {
		return 0, ErrOverrun
	}
	if w.kind == NoBody && len(p) > 0 {
		return 0, ErrOverrun
	}
	done := 0
	for done < len(p) {
		room, err := w.space(len(p) - done)
		if err != nil {
			return done, err
		}
		n := copy(room, p[done:])
		w.commit(n)
		done += n
	}
	return done, nil
}

// Flush sends what is buffered. When the gate refuses, its error is returned,
// nothing is sent and everything stays buffered.
func (w *Writer) Flush() error {
	if w.err != nil {
		return w.err
	}
	if w.n == 0 {
		return nil
	}
	limit, err := w.limit()
	switch {
	case err != nil:
		return err
	case w.nonblocking:
		return w.sendNonblock()
	}
	return w.send(limit)
}

// send sends what is buffered, within limit; zero: in any time.
func (w *Writer) send(limit time.Duration) error {
	var n int
	var err error
	if w.sock != nil {
		n, err = w.sock.send(w.buf[:w.n], limit)
	} else if err = w.arm(limit); err == nil {
		n, err = w.nc.Write(w.buf[:w.n])
	} else {
		return err
	}
	w.sent += int64(n)
	if err != nil {
		w.n = copy(w.buf, w.buf[n:w.n])
		w.err = err
		return err
	}
	w.n = 0
	return nil
}

// Close ends the body and sends what is left: the last chunk with the trailer
// lines, each with its CRLF. A body short of its length is ErrUnfinished; the
// connection then has to be closed.
func (w *Writer) Close(trailers []byte) error {
	if err := w.end(trailers); err != nil {
		return err
	}
	return w.Flush()
}

// CloseLast is Close for the last message of a connection that is closed right after:
// what is left may stay with the kernel until then, to leave together with the end.
func (w *Writer) CloseLast(trailers []byte) error {
	if err := w.end(trailers); err != nil {
		return err
	}
	if w.sock != nil {
		w.sock.setLast(true)
		defer w.sock.setLast(false)
	}
	return w.Flush()
}

// end puts the end of the body behind what is buffered.
func (w *Writer) end(trailers []byte) error {
	switch {
	case w.err != nil:
		return w.err
	case w.left > 0:
		w.err = ErrUnfinished
		return w.err
	case w.kind == Chunked:
		w.PutString("0\r\n")
		w.Put(trailers)
		w.PutString("\r\n")
	}
	w.kind = NoBody
	return nil
}

// Abort gives the body up. What is buffered goes out, the end does not, and
// the connection has to be closed: the peer sees a message that was cut. One
// that runs until close would look whole, so Conn.Close resets it.
func (w *Writer) Abort() {
	if w.kind == UntilClose {
		w.reset.Store(true)
	} else {
		_ = w.Flush() // the connection is given up either way
	}
	if w.err == nil {
		w.err = ErrUnfinished
	}
}

// Err returns the error that ended the Writer, nil while it works.
func (w *Writer) Err() error { return w.err }

// limit asks the gate, and returns for how long what is sent next may take.
func (w *Writer) limit() (time.Duration, error) {
	d := w.timeout
	if gate := w.precondition; gate != nil {
		w.precondition = nil
		most, err := gate()
		if err != nil {
			return 0, err
		}
		if most > 0 && (d <= 0 || most < d) {
			return most, nil
		}
	}
	return d, nil
}

// arm sets the write deadline of what has no socket: limit from now. One that is
// near enough stays.
func (w *Writer) arm(limit time.Duration) error {
	if limit <= 0 {
		if w.until.IsZero() {
			return nil
		}
		w.until = time.Time{}
		return setWriteDeadline(w.nc, &w.stopped, time.Time{})
	}
	t := time.Now().Add(limit)
	if !w.until.IsZero() && limit == w.timeout && w.until.Sub(t).Abs() <= limit/16 {
		return nil
	}
	w.until = t
	return setWriteDeadline(w.nc, &w.stopped, t)
}

// setWriteDeadline sets the write deadline of nc to t, unless StopWrite has set stopped: then
// the deadline is past. StopWrite sets stopped before it sets the deadline, so whichever of the
// two callers comes last leaves a deadline that is past. stopped may be nil.
func setWriteDeadline(nc net.Conn, stopped *atomic.Bool, t time.Time) error {
	err := nc.SetWriteDeadline(t)
	if stopped != nil && stopped.Load() {
		err = nc.SetWriteDeadline(past())
	}
	return err
}

// reserve makes room for n bytes more, in a larger buffer if need be. Heads
// are reserved for, so that they never leave by themselves.
func (w *Writer) reserve(n int) {
	if len(w.buf)-w.n >= n {
		return
	}
	next := w.pool.get(max(w.n+n, min(2*len(w.buf), largeBuffer)))
	copy(next, w.buf[:w.n])
	if w.buf != nil {
		w.pool.put(w.buf)
	}
	w.buf = next
}

const (
	chunkHead = len("ffff\r\n")
	chunkTail = len("\r\n")
	minSpace  = 512
)

// space returns room for up to want bytes of body, at least a few: it takes
// the streaming buffer when the present one is too small, and flushes when
// that is full. In a chunked body it leaves room for a chunk's frame.
func (w *Writer) space(want int) ([]byte, error) {
	if w.err != nil {
		return nil, w.err
	}
	frame := 0
	if w.kind == Chunked {
		frame = chunkHead + chunkTail
	}
	if free := len(w.buf) - w.n - frame; free < want {
		if len(w.buf) < streamBuffer {
			w.reserve(min(want+frame, streamBuffer-w.n))
		}
		if free = len(w.buf) - w.n - frame; free < min(want, minSpace) {
			if err := w.Flush(); err != nil {
				return nil, err
			}
		}
	}
	room := w.buf[w.n:]
	if w.kind == Chunked {
		room = room[chunkHead : len(room)-chunkTail]
		room = room[:min(len(room), 0xffff)]
	}
	return room[:min(len(room), want)], nil
}

// commit takes n bytes that were put into the last space.
func (w *Writer) commit(n int) {
	if n == 0 {
		return
	}
	switch w.kind {
	case Chunked:
		w.frame(n)
		return
	case Length:
		w.left -= int64(n)
	case NoBody, UntilClose:
	}
	w.n += n
}

// frame puts the size before and the CRLF behind a chunk of n bytes that
// stands chunkHead bytes into the free part of buf. The size has no leading
// zeros; below 4096 bytes that means moving the chunk up.
func (w *Writer) frame(n int) {
	free := w.buf[w.n:]
	var digits [4]byte
	size := strconv.AppendUint(digits[:0], uint64(n), 16)
	at := copy(free, size)
	at += copy(free[at:], "\r\n")
	if at < chunkHead {
		copy(free[at:], free[chunkHead:chunkHead+n])
	}
	at += n
	at += copy(free[at:], "\r\n")
	w.n += at
}

// release gives the buffer back unless it holds unsent bytes.
func (w *Writer) release() {
	if w.buf != nil && w.n == 0 {
		w.pool.put(w.buf)
		w.buf = nil
	}
}
