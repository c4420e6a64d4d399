package h1

import (
	"sync/atomic"
	"time"
)

// This file contains the non-blocking operations of Conn. The event loop of package proxy
// serves many connections with one goroutine: epoll reports that a connection is readable,
// and TryReadRequest or TryReadResponse parses what has arrived. They use the same parser as
// the blocking ReadRequest and ReadResponse. If a message cannot be completed at once, its
// bytes stay in the read buffer, and the blocking function parses them again from the start.

// ParseResult is the result of a non-blocking attempt to read a message.
type ParseResult uint8

const (
	// ParseNoData means that no byte of the message has arrived.
	ParseNoData ParseResult = iota + 1
	// ParseComplete means that a valid header section has arrived. For a response, the whole
	// body has arrived too.
	ParseComplete
	// ParseIncomplete means that a part of the message has arrived, and that the message can still
	// become complete without blocking. TryReadRequest does not return it.
	ParseIncomplete
	// ParseMustBlock means that the caller must use the blocking functions. A request is
	// incomplete after one read, a message is malformed or too large for this path, or the
	// connection has ended or failed.
	ParseMustBlock
)

// ReadsSocketDirectly reports whether c reads from its socket without TLS or multiplexing in
// between. If so, a readable socket means that c has data to read, and SendChecked can check the
// connection before it sends.
func (c *Conn) ReadsSocketDirectly() bool { return c.in.sock != nil }

// SetWakeup sets a function that Close, Abort, StopWaiting and StopRead call. It lets an owner that
// is not blocked in a read notice these calls. nil removes it. The function must not block.
func (c *Conn) SetWakeup(wakeup *func()) { c.wakeup.Store(wakeup) }

// wakeup is a function that can be replaced and called from any goroutine.
type wakeup struct{ atomic.Pointer[func()] }

// call calls the function, if there is one.
func (w *wakeup) call() {
	if f := w.Load(); f != nil {
		(*f)()
	}
}

// TryReadRequest reads the next request header into req without blocking. It reads from the socket
// no more than once. After ParseComplete, req is ready as after ReadRequest. After any other result
// the read buffer is unchanged, except for bytes that were appended.
func (c *Conn) TryReadRequest(req *Request) ParseResult {
	req.reset()
	req.method = nil
	if result := c.headers.tryRequest(req); result != ParseIncomplete {
		return result
	}
	if result := c.in.readNonblock(); result != ParseIncomplete {
		return result
	}
	if result := c.headers.tryRequest(req); result != ParseIncomplete {
		return result
	}
	return ParseMustBlock // incomplete after one read
}

// MayHaveMore reports whether the last read filled the whole buffer, so that the socket may
// hold more data.
func (c *Conn) MayHaveMore() bool { return c.in.filledBuffer }

// readNonblock reads from the socket once, without blocking. ParseIncomplete means that it has read
// data.
func (in *connReader) readNonblock() ParseResult {
	if in.sock == nil {
		return ParseMustBlock
	}
	bufferIsFull := in.buf != nil && !in.makeRoom()
	if bufferIsFull {
		return ParseMustBlock
	}
	var tail []byte
	if in.buf != nil {
		tail = in.buf[in.writePos:]
	}
	buf, n, err := in.sock.receiveNonblock(tail)
	in.received += int64(n)
	in.filledBuffer = n > 0 && n == len(buf)
	in.addReceived(buf, n)
	switch {
	case n > 0:
		return ParseIncomplete
	case err != nil || in.buffered() > 0:
		return ParseMustBlock
	}
	return ParseNoData
}

// TryReadResponse reads the response to a request with the given method into res without blocking.
// It reads from the socket once. It returns ParseComplete only for a final response whose body has
// arrived, or that has none, and after which the connection can be reused. It consumes nothing:
// after ParseComplete the caller must call ConsumeResponse.
func (c *Conn) TryReadResponse(res *Response, method []byte) ParseResult {
	res.begin()
	in := &c.in
	if result := in.readNonblock(); result == ParseNoData || result == ParseMustBlock {
		return result
	}
	headerLen, err := c.headers.parse(&res.Header, in.unread(), res.parseStatusLine, false)
	switch {
	case err != nil || in.filledBuffer:
		return ParseMustBlock
	case headerLen == 0:
		return ParseIncomplete
	}
	res.raw = append(res.raw, in.unread()[:headerLen]...)
	if res.validate(string(method) == "HEAD") != nil {
		return ParseMustBlock
	}
	isFinal := res.status >= 200
	if !isFinal || !res.KeepAlive() {
		return ParseMustBlock
	}
	return in.bodyAvailability(res, headerLen)
}

// bodyAvailability returns ParseComplete if the body of res is buffered after its header of
// headerLen bytes, and ParseIncomplete if the rest of it fits into the buffer.
func (in *connReader) bodyAvailability(res *Response, headerLen int) ParseResult {
	if res.kind == NoBody {
		return ParseComplete
	}
	fitsIntoBuffer := res.kind == Length && res.length <= int64(len(in.buf)-headerLen)
	if !fitsIntoBuffer {
		return ParseMustBlock
	}
	if res.length > int64(in.buffered()-headerLen) {
		return ParseIncomplete
	}
	return ParseComplete
}

// ConsumeResponse removes the response header from the read buffer and starts the body. Call
// it after TryReadResponse has returned ParseComplete.
func (c *Conn) ConsumeResponse(res *Response) {
	c.in.discard(len(res.raw))
	res.start(&c.in)
}

// SendCheckedNonblock ends the message and checks the connection like SendChecked. It sends only
// the data that the socket accepts without blocking, and keeps the rest buffered for Flush. A
// precondition set before Flush limits the time of that Flush.
func (c *Conn) SendCheckedNonblock(trailers []byte) error {
	w, in := &c.out, &c.in
	if err := w.appendEnd(trailers); err != nil {
		return err
	}
	if in.buffered() > 0 {
		return ErrUnsolicitedData
	}
	return in.sock.sendCheckedNonblock(w)
}

// MarkDeadlinesCleared records that the owner of the connection has removed its read and write
// deadlines. c then sets a deadline again when it needs one.
func (c *Conn) MarkDeadlinesCleared() { c.in.deadline, c.out.deadline = time.Time{}, time.Time{} }

// SetNonblocking makes Flush and Close send only the data that the socket accepts without blocking.
// If bytes are left, they stay buffered, and Flush and Close return ErrUnsent.
func (w *Writer) SetNonblocking(on bool) { w.nonblocking = on }

// sendNonblock sends the data that the socket accepts without blocking, and keeps the rest
// buffered. It returns ErrUnsent if bytes are left.
func (w *Writer) sendNonblock() error {
	n, err := w.sock.sendNonblock(w.buf[:w.buffered])
	w.sent += int64(n)
	w.buffered = copy(w.buf, w.buf[n:w.buffered])
	switch {
	case err != nil:
		w.err = err
	case w.buffered > 0:
		err = ErrUnsent
	}
	return err
}
