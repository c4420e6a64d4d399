package h1

import (
	"net"
	"strconv"
	"sync/atomic"
	"time"
)

// Writer is the writing half of a Conn. It collects headers and bodies in one buffer, so that they
// are sent together. It writes one message at a time, and one goroutine owns it.
//
// A Writer sends data when Flush or Close is called, when its buffer is full, and when Copy has to
// wait for more data. After an error, all further writes fail with the same error.
type Writer struct {
	// The destination of the data.
	nc          net.Conn
	sock        *socket       // direct access to the socket of nc; nil means that nc.Write is used
	timeout     time.Duration // Timeouts.Write
	deadline    time.Time     // current write deadline of nc; zero means none
	nonblocking bool          // set by SetNonblocking

	// The write buffer. nil means that no buffer is borrowed from the pool.
	pool     *Buffers
	buf      []byte
	buffered int // number of unsent bytes, at the start of buf

	sent         int64                         // bytes that the socket has accepted so far
	precondition func() (time.Duration, error) // set by SetPrecondition; nil means none
	restTimeout  time.Duration                 // time limit for the bytes that sendFirst has not sent
	peekBuf      [1]byte                       // buffer of sendFirst
	err          error                         // result of all further writes; nil means that none has failed

	// The current body. There is none between two messages.
	kind      Kind
	remaining int64 // bytes of a body of known length that must still be written

	resetOnClose atomic.Bool // Close must abort the connection with a TCP reset instead of a FIN
	stopped      atomic.Bool // set by StopWrite: each write deadline is set to a time in the past
}

// Put appends p to the buffer without any framing. It is used for complete headers. It sends
// nothing.
func (w *Writer) Put(p []byte) {
	w.reserve(len(p))
	w.buffered += copy(w.buf[w.buffered:], p)
}

// PutString is like Put, for a string.
func (w *Writer) PutString(s string) {
	w.reserve(len(s))
	w.buffered += copy(w.buf[w.buffered:], s)
}

// Reserve reserves space for n bytes of body, so that the next Flush or Close sends them together
// with the data already buffered.
func (w *Writer) Reserve(n int) { w.reserve(n) }

// BeginBody starts a body of the given kind. size is its length if kind is Length.
// WriteRequestHeader and WriteResponseHeader call BeginBody.
func (w *Writer) BeginBody(kind Kind, size int64) {
	w.kind, w.remaining = kind, 0
	if kind == Length {
		w.remaining = size
	}
}

// Kind returns how the end of the current body is marked, or NoBody between two messages. After a
// body of kind UntilClose, the connection must be closed.
func (w *Writer) Kind() Kind { return w.kind }

// Pending returns the number of bytes that are buffered and not sent.
func (w *Writer) Pending() int { return w.buffered }

// Unsent returns the bytes that are buffered and not sent. It is valid until
// the next write.
func (w *Writer) Unsent() []byte { return w.buf[:w.buffered] }

// Discard drops the buffered data of a message that will not be sent. If no part of the message has
// been sent, another message may begin.
func (w *Writer) Discard() { w.buffered, w.kind, w.remaining, w.precondition = 0, NoBody, 0, nil }

// SetPrecondition sets a function that is called once, right before the next byte is sent.
// precondition returns the time limit for that write, zero for no additional limit, or an error
// that prevents it.
func (w *Writer) SetPrecondition(precondition func() (time.Duration, error)) {
	w.precondition = precondition
}

// Write writes a part of the body. It collects small writes in the buffer, and sends the buffer
// when it is full.
func (w *Writer) Write(p []byte) (int, error) {
	if w.exceedsBody(len(p)) {
		return 0, ErrOverrun
	}
	written := 0
	for written < len(p) {
		space, err := w.freeSpace(len(p) - written)
		if err != nil {
			return written, err
		}
		n := copy(space, p[written:])
		w.commit(n)
		written += n
	}
	return written, nil
}

// exceedsBody reports whether n more bytes would exceed the declared length of the body.
func (w *Writer) exceedsBody(n int) bool {
	switch w.kind {
	case NoBody:
		return n > 0
	case Length:
		return int64(n) > w.remaining
	case Chunked, UntilClose:
	}
	return false
}

// Flush sends the buffered data. If the precondition returns an error, Flush returns it, sends
// nothing, and keeps the data buffered.
func (w *Writer) Flush() error {
	if w.err != nil {
		return w.err
	}
	if w.buffered == 0 {
		return nil
	}
	limit, err := w.checkPrecondition()
	if err != nil {
		return err
	}
	if w.nonblocking {
		return w.sendNonblock()
	}
	return w.send(limit)
}

// send sends the buffered data within limit; zero means no limit.
func (w *Writer) send(limit time.Duration) error {
	var n int
	var err error
	if w.sock != nil {
		n, err = w.sock.send(w.buf[:w.buffered], limit)
	} else {
		if err = w.setWriteTimeout(limit); err != nil {
			return err
		}
		n, err = w.nc.Write(w.buf[:w.buffered])
	}
	w.sent += int64(n)
	if err != nil {
		w.buffered = copy(w.buf, w.buf[n:w.buffered])
		w.err = err
		return err
	}
	w.buffered = 0
	return nil
}

// Close ends the body and sends the buffered data. For a chunked body it adds the last chunk and
// the trailer lines, each of which must end in CRLF. If the body is shorter than its declared
// length, Close returns ErrUnfinished, and the connection must be closed.
func (w *Writer) Close(trailers []byte) error {
	if err := w.appendEnd(trailers); err != nil {
		return err
	}
	return w.Flush()
}

// CloseLast is like Close, for the last message of a connection that is closed right after. The
// kernel may delay the data until the close, so that it can send the data together with the FIN.
func (w *Writer) CloseLast(trailers []byte) error {
	if err := w.appendEnd(trailers); err != nil {
		return err
	}
	if w.sock != nil {
		w.sock.setLast(true)
		defer w.sock.setLast(false)
	}
	return w.Flush()
}

// appendEnd appends the end of the body to the buffer.
func (w *Writer) appendEnd(trailers []byte) error {
	switch {
	case w.err != nil:
		return w.err
	case w.remaining > 0:
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

// Abort ends a message that cannot be completed. Unless the body is UntilClose, Abort sends the
// buffered data but not the end of the body. The connection must then be closed, so that the peer
// detects a truncated message. A body of kind UntilClose would look complete after a FIN, so
// Conn.Close sends a TCP reset for it.
func (w *Writer) Abort() {
	if w.kind == UntilClose {
		w.resetOnClose.Store(true)
	} else {
		_ = w.Flush() // an error does not matter, because the connection is closed in any case
	}
	if w.err == nil {
		w.err = ErrUnfinished
	}
}

// Err returns the error that ended the Writer, or nil.
func (w *Writer) Err() error { return w.err }

// checkPrecondition calls the precondition, if there is one, and returns the time limit for the
// next write.
func (w *Writer) checkPrecondition() (time.Duration, error) {
	precondition := w.precondition
	if precondition == nil {
		return w.timeout, nil
	}
	w.precondition = nil
	maxWait, err := precondition()
	if err != nil {
		return 0, err
	}
	isShorter := w.timeout <= 0 || maxWait < w.timeout
	if maxWait > 0 && isShorter {
		return maxWait, nil
	}
	return w.timeout, nil
}

// setWriteTimeout sets the write deadline of nc to limit from now, for a connection without a
// socket. It keeps the current deadline if the difference is small, because setting one is
// expensive.
func (w *Writer) setWriteTimeout(limit time.Duration) error {
	if limit <= 0 {
		if w.deadline.IsZero() {
			return nil
		}
		w.deadline = time.Time{}
		return setWriteDeadline(w.nc, &w.stopped, time.Time{})
	}
	deadline := time.Now().Add(limit)
	currentIsCloseEnough := !w.deadline.IsZero() && w.deadline.Sub(deadline).Abs() <= limit/16
	if currentIsCloseEnough && limit == w.timeout {
		return nil
	}
	w.deadline = deadline
	return setWriteDeadline(w.nc, &w.stopped, deadline)
}

// setWriteDeadline sets the write deadline of nc, or a deadline in the past if StopWrite has set
// stopped. StopWrite sets stopped before the deadline, so the deadline ends up in the past
// whichever caller comes last. stopped may be nil.
func setWriteDeadline(nc net.Conn, stopped *atomic.Bool, deadline time.Time) error {
	err := nc.SetWriteDeadline(deadline)
	if stopped != nil && stopped.Load() {
		err = nc.SetWriteDeadline(past())
	}
	return err
}

// reserve makes space for n more bytes, with a larger buffer if necessary. Headers use it so that a
// full buffer never causes part of a header to be sent.
func (w *Writer) reserve(n int) {
	if len(w.buf)-w.buffered >= n {
		return
	}
	doubled := min(2*len(w.buf), largeBuffer)
	next := w.pool.get(max(w.buffered+n, doubled))
	copy(next, w.buf[:w.buffered])
	if w.buf != nil {
		w.pool.put(w.buf)
	}
	w.buf = next
}

const (
	// chunkHeadLen and chunkTailLen are the maximum lengths of the framing before and after the data
	// of a chunk.
	chunkHeadLen = len("ffff\r\n")
	chunkTailLen = len("\r\n")
	// maxChunkData is the maximum number of data bytes in a chunk with that framing.
	maxChunkData = 0xffff
	// minSpace is the number of free bytes below which the buffer is sent before more is written.
	minSpace = 512
)

// freeSpace returns free space for up to want bytes of body. If the current buffer is too small,
// freeSpace first replaces it by a streaming buffer. If that is full, freeSpace flushes it. For a
// chunked body it leaves space for the framing of a chunk.
func (w *Writer) freeSpace(want int) ([]byte, error) {
	if w.err != nil {
		return nil, w.err
	}
	if w.freeBytes() < want && len(w.buf) < streamBuffer {
		w.reserve(min(want+w.framingLen(), streamBuffer-w.buffered))
	}
	if w.freeBytes() < min(want, minSpace) {
		if err := w.Flush(); err != nil {
			return nil, err
		}
	}
	space := w.buf[w.buffered:]
	if w.kind == Chunked {
		space = space[chunkHeadLen : len(space)-chunkTailLen]
		space = space[:min(len(space), maxChunkData)]
	}
	return space[:min(len(space), want)], nil
}

// freeBytes returns the number of body bytes for which the buffer has space.
func (w *Writer) freeBytes() int { return len(w.buf) - w.buffered - w.framingLen() }

// framingLen returns the number of bytes that the framing of a chunk needs. It is zero if the body is
// not chunked.
func (w *Writer) framingLen() int {
	if w.kind == Chunked {
		return chunkHeadLen + chunkTailLen
	}
	return 0
}

// commit records that n bytes were written into the space that the last call of freeSpace returned.
func (w *Writer) commit(n int) {
	if n == 0 {
		return
	}
	switch w.kind {
	case Chunked:
		w.frameChunk(n)
		return
	case Length:
		w.remaining -= int64(n)
	case NoBody, UntilClose:
	}
	w.buffered += n
}

// frameChunk adds the framing to a chunk of n bytes that begins chunkHeadLen bytes into the free
// part of buf. The size has no leading zeros, so frameChunk must move a chunk of fewer than 4096
// bytes toward the start.
func (w *Writer) frameChunk(n int) {
	free := w.buf[w.buffered:]
	var digits [4]byte
	size := strconv.AppendUint(digits[:0], uint64(n), 16)
	chunkLen := copy(free, size)
	chunkLen += copy(free[chunkLen:], "\r\n")
	if chunkLen < chunkHeadLen {
		copy(free[chunkLen:], free[chunkHeadLen:chunkHeadLen+n])
	}
	chunkLen += n
	chunkLen += copy(free[chunkLen:], "\r\n")
	w.buffered += chunkLen
}

// releaseEmptyBuffer returns the buffer to the pool, unless it contains unsent bytes.
func (w *Writer) releaseEmptyBuffer() {
	if w.buf != nil && w.buffered == 0 {
		w.pool.put(w.buf)
		w.buf = nil
	}
}
