package h1

import (
	"errors"
	"io"
	"os"
	"time"
)

// Errors for invalid bodies.
var (
	errBodyTooLong            = &Error{413, "the body is too long"}
	errChunkSize              = &Error{400, "a bad chunk size"}
	errChunkLineTooLong       = &Error{400, "a chunk line is too long"}
	errChunkExtension         = &Error{400, "a bad chunk extension"}
	errTooManyChunkExtensions = &Error{400, "too many chunk extensions"}
	errChunkWithoutCRLF       = &Error{400, "a chunk that does not end in CRLF"}
	errTooManyTrailers        = &Error{400, "too many trailers"}
)

// errNeedMore means that the buffered data is used up, and that the caller must read from the
// connection to continue. Functions of this package return it to each other, never to callers.
var errNeedMore = errors.New("h1: more needed")

// minDirectRead is the minimum size in bytes of a body read that goes from the socket directly into
// the buffer of the caller, and not into the read buffer.
const minDirectRead = 4 << 10

// bodyState is the position of the reader in a body.
type bodyState uint8

const (
	inData     bodyState = iota + 1
	inSize               // at a chunk-size line
	inDataEnd            // at the CRLF after chunk data
	inTrailers           // in the trailer section
	atEnd
)

// Body reads the body of one message. At the end it returns io.EOF for a complete body,
// io.ErrUnexpectedEOF for a truncated one, and an *Error for a malformed one. After an error, every
// further Read returns the same error. Body never consumes bytes after the body.
type Body struct {
	in         *connReader
	header     *Header
	kind       Kind
	state      bodyState
	isResponse bool  // the body belongs to a response, so errors have the status 502
	remaining  int64 // remaining bytes of the body (Length) or of the chunk
	// bytesRead is the number of body bytes that were read.
	bytesRead      int64
	maxBytes       int64 // maximum of bytesRead; zero means no limit
	extensionBytes int   // bytes of chunk extensions so far
	err            error
	// waitTime is the total time of waiting for the body. It is measured only if a minimum rate is
	// set.
	waitTime time.Duration

	trailers            []byte
	trailerLines        int
	readStarted         bool // a read of the body has begun, so the client may have sent a part of it
	skippingTrailerLine bool // the reader is within a trailer line of a response that exceeds the limit
	// droppedTrailers is the number of dropped trailer fields, and firstDroppedTrailer is the name
	// of the first one.
	droppedTrailers     int
	firstDroppedTrailer string
}

// start begins a body of the given kind. length is its length if kind is Length.
func (b *Body) start(in *connReader, header *Header, kind Kind, length int64) {
	*b = Body{in: in, header: header, kind: kind, trailers: b.trailers[:0]}
	b.state = atEnd
	switch kind {
	case Length:
		if length > 0 {
			b.state, b.remaining = inData, length
		}
	case Chunked:
		b.state = inSize
	case UntilClose:
		b.state = inData
	case NoBody:
	}
}

// Kind returns how the end of the body is determined.
func (b *Body) Kind() Kind { return b.kind }

// Done reports whether the body has been read completely, including trailers.
func (b *Body) Done() bool { return b.state == atEnd }

// HasStarted reports whether a part of the body has arrived. A client that waits for a 100 Continue
// may never send it.
func (b *Body) HasStarted() bool { return b.readStarted || b.state == atEnd || b.in.buffered() > 0 }

// Remaining returns the number of remaining bytes of a body with a known length. It returns 0 at
// the end of any body, and otherwise -1.
func (b *Body) Remaining() int64 {
	switch {
	case b.state == atEnd:
		return 0
	case b.kind == Length:
		return b.remaining
	}
	return -1
}

// Received returns the number of body bytes read so far.
func (b *Body) Received() int64 { return b.bytesRead }

// SetMaxBytes rejects a body of more than limit bytes with status 413. A body with a larger
// declared length is rejected immediately, and any other body when it exceeds the limit. Zero means
// no limit.
func (b *Body) SetMaxBytes(limit int64) error {
	b.maxBytes = limit
	if limit > 0 && b.kind == Length && b.bytesRead+b.remaining > limit {
		return b.fail(errBodyTooLong)
	}
	return nil
}

// Trailers returns the trailer lines in their original form, each with its CRLF, without the empty
// line. It is valid after Done, until the next message.
func (b *Body) Trailers() []byte { return b.trailers }

// Read reads a part of the body. It blocks until data arrives.
func (b *Body) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for {
		n, err := b.readBuffered(p)
		if n > 0 {
			return n, nil
		}
		if err != errNeedMore { //nolint:errorlint // never wrapped
			return 0, err
		}
		if n, err := b.readFromConn(p, true); n > 0 || err != nil {
			return n, err
		}
	}
}

// Fill reads until p is full or the body has ended. done reports whether the body has ended. It is
// used for bodies that are kept in memory.
func (b *Body) Fill(p []byte) (n int, done bool, err error) {
	for n < len(p) && b.state != atEnd {
		read, err := b.Read(p[n:])
		n += read
		if err != nil && !errors.Is(err, io.EOF) {
			return n, false, err
		}
	}
	if b.state != atEnd && n == len(p) && b.kind == Chunked {
		// The end of the last chunk may already be buffered.
		if _, err := b.readBuffered(nil); err != nil && !errors.Is(err, io.EOF) && err != errNeedMore { //nolint:errorlint // never wrapped
			return n, false, err
		}
	}
	return n, b.state == atEnd, nil
}

// WaitBuffered waits up to the timeout until the rest of a body with a known length is buffered. It
// does not wait for a body of unknown length or of more than limit bytes. limit must not exceed the
// ReadBuffer of the Conn. An error means that the body cannot become complete.
func (b *Body) WaitBuffered(limit int64, timeout time.Duration) error {
	in := b.in
	if b.kind != Length || b.remaining > limit || b.remaining <= int64(in.buffered()) || b.err != nil {
		return b.err
	}
	if err := in.setReadTimeout(timeout); err != nil {
		return b.fail(err)
	}
	b.readStarted = true
	for b.remaining > int64(in.buffered()) {
		switch err := in.readMore(); {
		case errors.Is(err, os.ErrDeadlineExceeded):
			return nil
		case err != nil:
			return b.handleReadError(err)
		}
	}
	return nil
}

// IsBuffered reports whether the rest of the body can be read without blocking: it is empty, or its
// length is known and all bytes are buffered.
func (b *Body) IsBuffered() bool {
	return b.err == nil && (b.state == atEnd || b.kind == Length && b.remaining <= int64(b.in.buffered()))
}

// Drain reads and discards the rest of the body, up to limit bytes. After nil, the connection can
// carry the next message.
func (b *Body) Drain(limit int64) error {
	if b.state == atEnd {
		return nil
	}
	if b.kind == Length && b.remaining > limit || b.kind == UntilClose {
		return ErrDrainLimit
	}
	sink := b.in.pool.get(smallBuffer)
	defer b.in.pool.put(sink)
	for {
		n, err := b.Read(sink)
		limit -= int64(n)
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case limit < 0:
			return ErrDrainLimit
		}
	}
}

// readBuffered moves body data from the read buffer to p. It returns errNeedMore if no data is
// buffered. With an empty p it only parses the framing before the next data. It never reads from
// the socket.
func (b *Body) readBuffered(p []byte) (int, error) {
	if b.err != nil {
		return 0, b.err
	}
	for b.state != inData {
		if b.state == atEnd {
			return 0, io.EOF
		}
		if err := b.parseFraming(); err != nil {
			if err == errNeedMore { //nolint:errorlint // never wrapped
				return 0, err
			}
			return 0, b.fail(err)
		}
	}
	src := b.in.unread()
	if len(src) == 0 {
		return 0, errNeedMore
	}
	b.readStarted = true
	if b.kind != UntilClose && int64(len(src)) > b.remaining {
		src = src[:b.remaining]
	}
	n := copy(p, src)
	b.in.discard(n)
	return n, b.recordConsumed(n)
}

// recordConsumed records that n bytes of data were read, and advances the state at the end of a
// chunk or of the body. It returns errBodyTooLong if the body exceeds maxBytes.
func (b *Body) recordConsumed(n int) error {
	b.bytesRead += int64(n)
	if b.maxBytes > 0 && b.bytesRead > b.maxBytes {
		return b.fail(errBodyTooLong)
	}
	if b.kind == UntilClose {
		return nil
	}
	b.remaining -= int64(n)
	if b.remaining == 0 {
		b.state = atEnd
		if b.kind == Chunked {
			b.state = inDataEnd
		}
	}
	return nil
}

// readFromConn reads from the socket once. If that is worthwhile, it reads directly into p and
// returns the length; otherwise it reads into the read buffer. Without wait it returns errNeedMore
// if no data has arrived.
func (b *Body) readFromConn(p []byte, wait bool) (int, error) {
	in := b.in
	if wait {
		waitStart, err := b.startWait()
		if err != nil {
			return 0, b.fail(err)
		}
		defer b.addWaitTime(waitStart)
	}
	b.readStarted = true
	if b.state == inData && in.buffered() == 0 && len(p) >= minDirectRead && (b.kind != Chunked || b.remaining >= minDirectRead) {
		return b.readDirect(p, wait)
	}
	if wait {
		if err := in.readMore(); err != nil {
			return 0, b.handleReadError(err)
		}
		return 0, nil
	}
	if in.buf != nil && !in.makeRoom() {
		return 0, nil
	}
	hasData, err := in.tryFill()
	if err != nil {
		return 0, b.handleReadError(err)
	}
	if !hasData {
		return 0, errNeedMore
	}
	return 0, nil
}

// bufferWait is how long a read waits with a buffer, on connections that need a buffer to wait for
// data.
const bufferWait = 100 * time.Millisecond

// readSoon is readFromConn for data that has arrived or is about to arrive. For a short wait,
// keeping a buffer is cheaper than returning it. Otherwise it returns errNeedMore.
func (b *Body) readSoon(p []byte) (int, error) {
	in := b.in
	if in.sock != nil || in.mux != nil {
		return b.readFromConn(p, false)
	}
	bodyTimeout := in.bodyTimeout
	in.bodyTimeout = bufferWait
	n, err := b.readFromConn(p, true)
	in.bodyTimeout = bodyTimeout
	if errors.Is(err, os.ErrDeadlineExceeded) && (bodyTimeout <= 0 || bodyTimeout > bufferWait) {
		b.err = nil
		err = errNeedMore
	}
	return n, err
}

// startWait sets the deadline for a wait. The caller must call addWaitTime with waitStart after the
// wait. waitStart is not zero if a minimum rate applies.
func (b *Body) startWait() (waitStart time.Time, err error) {
	limit, err := b.waitLimit()
	if err == nil {
		err = b.in.setReadTimeout(limit)
	}
	if b.in.minRate > 0 {
		waitStart = time.Now()
	}
	return waitStart, err
}

// addWaitTime adds the duration of a wait to waitTime.
func (b *Body) addWaitTime(waitStart time.Time) {
	if b.in.minRate > 0 {
		b.waitTime += time.Since(waitStart)
	}
}

// waitLimit returns the time limit for the next wait, according to the idle timeout and the minimum
// rate.
func (b *Body) waitLimit() (time.Duration, error) {
	in := b.in
	if in.minRate <= 0 {
		return in.bodyTimeout, nil
	}
	// float64 avoids an overflow of int64 for a long body.
	remaining := in.rateGrace + time.Duration(float64(b.bytesRead)/float64(in.minRate)*float64(time.Second)) - b.waitTime
	if remaining <= 0 {
		return 0, os.ErrDeadlineExceeded
	}
	if in.bodyTimeout > 0 {
		remaining = min(remaining, in.bodyTimeout)
	}
	return remaining, nil
}

// readDirect reads data directly into p, and never beyond the body.
func (b *Body) readDirect(p []byte, wait bool) (int, error) {
	if b.kind != UntilClose && int64(len(p)) > b.remaining {
		p = p[:b.remaining]
	}
	if !wait && b.in.sock == nil && (b.in.mux == nil || b.in.mux.WouldBlock()) {
		return 0, errNeedMore
	}
	_, n, err := b.in.receive(p, wait)
	if n > 0 {
		return n, b.recordConsumed(n)
	}
	if err != nil {
		return 0, b.handleReadError(err)
	}
	return 0, errNeedMore
}

// handleReadError returns the result of the body after the stream has ended with err: io.EOF for a
// body that is delimited by the end of the connection, and otherwise an error.
func (b *Body) handleReadError(err error) error {
	if !errors.Is(err, io.EOF) {
		return b.fail(err)
	}
	if b.kind == UntilClose {
		b.state = atEnd
		return io.EOF
	}
	return b.fail(io.ErrUnexpectedEOF)
}

// fail records err as the result of all further reads, and returns it. An error of a response gets the
// status 502.
func (b *Body) fail(err error) error {
	if b.isResponse {
		err = gatewayError(err)
	}
	b.err = err
	return err
}
