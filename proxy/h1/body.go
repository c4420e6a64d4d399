package h1

import (
	"bytes"
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

// errNeedMore means that the buffered data is used up and the caller must read from the connection
// to continue. It never leaves this package.
var errNeedMore = errors.New("h1: more data needed")

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
	header     *Header // header of the message; nil for a tunnel
	kind       Kind
	isResponse bool // the body belongs to a response, so its errors have the status 502

	// Progress. err is the result of all further reads; nil until a read fails.
	state       bodyState
	readStarted bool  // a read of the body has begun, so the client may have sent part of it
	remaining   int64 // bytes that must still be read, of the body (Length) or of the chunk (Chunked)
	bytesRead   int64 // body bytes that have been read
	err         error

	// Limits. waitTime is measured only if a minimum rate is set.
	maxBytes int64         // maximum of bytesRead; zero means no limit
	waitTime time.Duration // total time of the waits for data of the body

	// Chunk extensions and trailers. trailers contains the accepted lines, each with its CRLF.
	extensionBytes      int      // length of all chunk extensions so far
	forbiddenTrailers   []string // see ForbidTrailers
	removedTrailers     []string // see RemoveTrailers
	trailers            []byte
	trailerLines        int
	skippingTrailerLine bool   // the reader is within a trailer line of a response that exceeds the limit
	droppedTrailers     int    // number of dropped trailer fields
	firstDroppedTrailer string // name of the first dropped trailer field
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

// ForbidTrailers sets the names of further fields that are dropped from the trailers. It must be called before the
// trailers are read. names must not change.
func (b *Body) ForbidTrailers(names []string) { b.forbiddenTrailers = names }

// RemoveTrailers drops the trailers with these names, and with names that some apps treat as
// equivalent. It also removes trailers that have already been read. No goroutine may read the body
// at the same time. names must not change.
func (b *Body) RemoveTrailers(names []string) {
	b.removedTrailers = names
	if len(b.trailers) == 0 {
		return
	}
	kept := b.trailers[:0]
	for line := range bytes.SplitAfterSeq(b.trailers, []byte("\n")) {
		if name, _, _ := bytes.Cut(line, []byte(":")); containsLookalike(names, name) {
			b.dropTrailer(name)
			continue
		}
		kept = append(kept, line...)
	}
	b.trailers = kept
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
		if n, err := b.readBlocking(p); n > 0 || err != nil {
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
	if b.kind == Chunked && b.state != atEnd && n == len(p) {
		if err := b.parseBufferedFraming(); err != nil {
			return n, false, err
		}
	}
	return n, b.state == atEnd, nil
}

// parseBufferedFraming parses the chunked framing that is already buffered before the next data. It
// may be the end of the body.
func (b *Body) parseBufferedFraming() error {
	_, err := b.readBuffered(nil)
	if err == errNeedMore || errors.Is(err, io.EOF) { //nolint:errorlint // never wrapped
		return nil
	}
	return err
}

// WaitBuffered waits for up to the timeout until the rest of a body of known length is buffered. It
// does not wait for a body of unknown length or of more than limit bytes. limit must not exceed the
// ReadBuffer of the Conn. An error means that the body can no longer become complete.
func (b *Body) WaitBuffered(limit int64, timeout time.Duration) error {
	canBeBuffered := b.kind == Length && b.remaining <= limit
	if b.err != nil || !canBeBuffered || b.isRestBuffered() {
		return b.err
	}
	if err := b.in.setReadTimeout(timeout); err != nil {
		return b.fail(err)
	}
	b.readStarted = true
	for !b.isRestBuffered() {
		err := b.in.readMore()
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return nil
		}
		if err != nil {
			return b.handleReadError(err)
		}
	}
	return nil
}

// isRestBuffered reports whether all remaining bytes of a body with a known length are buffered.
func (b *Body) isRestBuffered() bool { return b.remaining <= int64(b.in.buffered()) }

// IsBuffered reports whether the rest of the body can be read without blocking: it is empty, or its
// length is known and all bytes are buffered.
func (b *Body) IsBuffered() bool {
	if b.err != nil {
		return false
	}
	return b.state == atEnd || b.kind == Length && b.isRestBuffered()
}

// Drain reads and discards the rest of the body, up to limit bytes. If it returns nil, the
// connection can carry the next message.
func (b *Body) Drain(limit int64) error {
	if b.state == atEnd {
		return nil
	}
	exceedsLimit := b.kind == Length && b.remaining > limit
	if exceedsLimit || b.kind == UntilClose {
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
	n := copy(p, b.limitToBody(src))
	b.in.discard(n)
	return n, b.recordConsumed(n)
}

// limitToBody returns the part of p that does not exceed the rest of the body, or the rest of the
// chunk if the body is chunked.
func (b *Body) limitToBody(p []byte) []byte {
	if b.kind != UntilClose && int64(len(p)) > b.remaining {
		return p[:b.remaining]
	}
	return p
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
	if b.remaining > 0 {
		return nil
	}
	if b.kind == Chunked {
		b.state = inDataEnd
	} else {
		b.state = atEnd
	}
	return nil
}

// readBlocking waits for data and reads from the socket once. If worthwhile, it reads directly into
// p and returns the number of bytes. Otherwise it reads into the read buffer and returns 0.
func (b *Body) readBlocking(p []byte) (int, error) {
	waitStart, err := b.startWait()
	if err != nil {
		return 0, b.fail(err)
	}
	defer b.addWaitTime(waitStart)
	b.readStarted = true
	if b.canReadDirectly(p) {
		return b.readDirect(p, true)
	}
	if err := b.in.readMore(); err != nil {
		return 0, b.handleReadError(err)
	}
	return 0, nil
}

// readNonblocking is like readBlocking, but returns errNeedMore if no data has arrived.
func (b *Body) readNonblocking(p []byte) (int, error) {
	in := b.in
	b.readStarted = true
	if b.canReadDirectly(p) {
		return b.readDirect(p, false)
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

// canReadDirectly reports whether enough of the next bytes on the connection are body data for a
// direct read into p to be worthwhile.
func (b *Body) canReadDirectly(p []byte) bool {
	nextIsData := b.state == inData && b.in.buffered() == 0
	if !nextIsData || len(p) < minDirectRead {
		return false
	}
	return b.kind != Chunked || b.remaining >= minDirectRead
}

// bufferWait is how long a read keeps its buffer while it waits, on connections that need a buffer
// to wait for data.
const bufferWait = 100 * time.Millisecond

// readSoon reads data that has arrived or is about to arrive, and otherwise returns errNeedMore.
// During a short wait, keeping a buffer is cheaper than returning it.
func (b *Body) readSoon(p []byte) (int, error) {
	in := b.in
	if in.sock != nil || in.mux != nil {
		return b.readNonblocking(p)
	}
	bodyTimeout := in.bodyTimeout
	in.bodyTimeout = bufferWait
	n, err := b.readBlocking(p)
	in.bodyTimeout = bodyTimeout
	maxWaitNotReached := bodyTimeout <= 0 || bodyTimeout > bufferWait
	if maxWaitNotReached && errors.Is(err, os.ErrDeadlineExceeded) {
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
	// The time that the bytes read so far permit. float64 avoids an overflow of int64 for a long body.
	permittedTime := time.Duration(float64(b.bytesRead) / float64(in.minRate) * float64(time.Second))
	limit := in.rateGrace + permittedTime - b.waitTime
	if limit <= 0 {
		return 0, os.ErrDeadlineExceeded
	}
	if in.bodyTimeout > 0 {
		limit = min(limit, in.bodyTimeout)
	}
	return limit, nil
}

// readDirect reads data directly into p, and never beyond the body. Unless wait is set, it returns
// errNeedMore if no data has arrived.
func (b *Body) readDirect(p []byte, wait bool) (int, error) {
	if !wait && b.in.mayBlock() {
		return 0, errNeedMore
	}
	_, n, err := b.in.receive(b.limitToBody(p), wait)
	if n > 0 {
		return n, b.recordConsumed(n)
	}
	if err != nil {
		return 0, b.handleReadError(err)
	}
	return 0, errNeedMore
}

// handleReadError returns the error of the body after the stream ended with err. It is io.EOF for a
// body that is delimited by the end of the connection.
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
