package h1

import "time"

// What a Conn can do for one who does not wait, and carries many (proxy's loop): it hears
// elsewhere that there is something to read. The bytes are judged by the same code as those
// that are waited for, and what cannot be settled at once is left as it was found, for
// ReadRequest and ReadResponse to meet again.

// ParseResult says what came of a look for a message.
type ParseResult uint8

const (
	// ParseNoData is not a byte of it.
	ParseNoData ParseResult = iota + 1
	// ParseComplete is a head that is whole and good; of an answer, with all of its body.
	ParseComplete
	// ParseIncomplete is some of an answer that may be whole once more has come.
	ParseIncomplete
	// ParseMustBlock is what has to be waited for, refused or answered by one who can wait, an end
	// or an error among it.
	ParseMustBlock
)

// Pollable reports whether the connection is its socket: whoever looks at that sees what there
// is to be read.
func (c *Conn) Pollable() bool { return c.in.sock != nil }

// SetWakeup has f called once the connection has been told anything from outside: that it is
// closed, or that a wait is to end. Nil: nobody is any more. F must not block.
func (c *Conn) SetWakeup(f *func()) { c.wakeup.Store(f) }

// wakeOwner tells whoever is to be told.
func (c *Conn) wakeOwner() {
	if f := c.wakeup.Load(); f != nil {
		(*f)()
	}
}

// TryReadRequest looks for the next request without waiting, and reads once if more is needed.
// Once it has found one whole, r is that, as after ReadRequest; else nothing has been taken.
func (c *Conn) TryReadRequest(r *Request) ParseResult {
	r.reset()
	r.method = nil
	for read := false; ; read = true {
		n := 0
		if b := c.in.unread(); len(b) > 0 {
			var err error
			if b[0] == '\r' {
				return ParseMustBlock // readHead knows how many of those there may be
			}
			if n, err = c.indexHead(&r.Head, b, r.parseRequestLine, true); err != nil {
				return ParseMustBlock
			}
		}
		switch {
		case n > 0:
			return c.consumeRequest(r, n)
		case read:
			return ParseMustBlock
		}
		if found := c.readNonblock(); found != ParseIncomplete {
			return found
		}
	}
}

// MayHaveMore reports whether there may be more to read at once: the last read filled all the room
// it had.
func (c *Conn) MayHaveMore() bool { return c.in.filledBuffer }

// consumeRequest takes a request whose head is n bytes long, if it is good.
func (c *Conn) consumeRequest(r *Request, n int) ParseResult {
	r.raw = append(r.raw, c.in.unread()[:n]...)
	if r.validate() != nil {
		return ParseMustBlock
	}
	c.in.discard(n)
	r.start(&c.in)
	return ParseComplete
}

// readNonblock reads once without waiting.
func (c *Conn) readNonblock() ParseResult {
	in := &c.in
	if in.sock == nil || in.buf != nil && !in.room() {
		return ParseMustBlock
	}
	var tail []byte
	if in.buf != nil {
		tail = in.buf[in.w:]
	}
	buf, n, err := in.sock.receiveNonblock(tail)
	in.received += int64(n)
	in.filledBuffer = n > 0 && n == len(buf)
	in.filled(buf, n)
	switch {
	case n > 0:
		return ParseIncomplete
	case err != nil || in.buffered() > 0:
		return ParseMustBlock
	}
	return ParseNoData
}

// TryReadResponse looks for the answer to a request of that method without waiting, and reads
// once. Nothing is taken before ConsumeResponse, which it is for the caller to say after
// ParseComplete: an answer whose body is here, or none, and by which the connection goes on.
func (c *Conn) TryReadResponse(r *Response, method []byte) ParseResult {
	r.begin()
	in := &c.in
	if found := c.readNonblock(); found == ParseNoData || found == ParseMustBlock {
		return found
	}
	n, err := c.indexHead(&r.Head, in.unread(), r.parseStatusLine, false)
	switch {
	case err != nil || in.filledBuffer:
		return ParseMustBlock
	case n == 0:
		return ParseIncomplete
	}
	r.raw = append(r.raw, in.unread()[:n]...)
	if r.validate(string(method) == "HEAD") != nil || r.status < 200 || !r.KeepAlive() {
		return ParseMustBlock
	}
	switch left := int64(in.buffered() - n); {
	case r.kind == NoBody:
		return ParseComplete
	case r.kind != Length || r.length > int64(len(in.buf)-n):
		return ParseMustBlock
	case r.length > left:
		return ParseIncomplete
	}
	return ParseComplete
}

// ConsumeResponse takes the answer that TryReadResponse has found whole.
func (c *Conn) ConsumeResponse(r *Response) {
	c.in.discard(len(r.raw))
	r.start(&c.in)
}

// SendCheckedNonblock is Ask without the wait: it looks, and sends what the socket takes at once. Finish
// sends what is left then.
func (c *Conn) SendCheckedNonblock(trailers []byte) error {
	w, in := &c.out, &c.in
	if err := w.end(trailers); err != nil {
		return err
	}
	if in.buffered() > 0 {
		return ErrUnsolicitedData
	}
	return in.sock.sendCheckedNonblock(w)
}

// MarkDeadlinesCleared says that the deadlines of the connection have been lifted, by its owner.
func (c *Conn) MarkDeadlinesCleared() { c.in.until, c.out.until = time.Time{}, time.Time{} }

// FlushPending sends what SendCheckedNonblock has left, if there is anything, and waits until it is sent: no
// longer than a gate allows that has been set since.
func (c *Conn) FlushPending() error { return c.out.Flush() }

// SetNonblocking has Flush and Close send what the socket takes at once, and return ErrUnsent if that
// is not all. What is left stays buffered.
func (w *Writer) SetNonblocking(yes bool) { w.nonblocking = yes }

// sendNonblock is send for one who does not wait.
func (w *Writer) sendNonblock() error {
	n, err := w.sock.sendNonblock(w.buf[:w.n])
	w.sent += int64(n)
	w.n = copy(w.buf, w.buf[n:w.n])
	switch {
	case err != nil:
		w.err = err
	case w.n > 0:
		err = ErrUnsent
	}
	return err
}
