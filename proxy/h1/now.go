package h1

import "time"

// What a Conn can do for one who does not wait, and carries many (proxy's loop): it hears
// elsewhere that there is something to read. The bytes are judged by the same code as those
// that are waited for, and what cannot be settled at once is left as it was found, for
// ReadRequest and ReadResponse to meet again.

// Found says what came of a look for a message.
type Found uint8

const (
	// FoundNothing is not a byte of it.
	FoundNothing Found = iota + 1
	// FoundWhole is a head that is whole and good; of an answer, with all of its body.
	FoundWhole
	// FoundPart is some of an answer that may be whole once more has come.
	FoundPart
	// FoundOther is what has to be waited for, refused or answered by one who can wait, an end
	// or an error among it.
	FoundOther
)

// Plain reports whether the connection is its socket: whoever looks at that sees what there
// is to be read.
func (c *Conn) Plain() bool { return c.in.sock != nil }

// Heed has f called once the connection has been told anything from outside: that it is
// closed, or that a wait is to end. Nil: nobody is any more. F must not block.
func (c *Conn) Heed(f *func()) { c.heeded.Store(f) }

// heed tells whoever is to be told.
func (c *Conn) heed() {
	if f := c.heeded.Load(); f != nil {
		(*f)()
	}
}

// TryRequest looks for the next request without waiting, and reads once if more is needed.
// Once it has found one whole, r is that, as after ReadRequest; else nothing has been taken.
func (c *Conn) TryRequest(r *Request) Found {
	r.reset()
	r.method = nil
	for read := false; ; read = true {
		n := 0
		if b := c.in.unread(); len(b) > 0 {
			var err error
			if b[0] == '\r' {
				return FoundOther // readHead knows how many of those there may be
			}
			if n, err = c.indexHead(&r.Head, b, r.judgeLine, true); err != nil {
				return FoundOther
			}
		}
		switch {
		case n > 0:
			return c.takeRequest(r, n)
		case read:
			return FoundOther
		}
		if found := c.readNow(); found != FoundPart {
			return found
		}
	}
}

// More reports whether there may be more to read at once: the last read filled all the room
// it had.
func (c *Conn) More() bool { return c.in.full }

// takeRequest takes a request whose head is n bytes long, if it is good.
func (c *Conn) takeRequest(r *Request, n int) Found {
	r.raw = append(r.raw, c.in.unread()[:n]...)
	if r.judge() != nil {
		return FoundOther
	}
	c.in.discard(n)
	r.start(&c.in)
	return FoundWhole
}

// readNow reads once without waiting.
func (c *Conn) readNow() Found {
	in := &c.in
	if in.sock == nil || in.buf != nil && !in.room() {
		return FoundOther
	}
	var tail []byte
	if in.buf != nil {
		tail = in.buf[in.w:]
	}
	buf, n, err := in.sock.receiveNow(tail)
	in.received += int64(n)
	in.full = n > 0 && n == len(buf)
	in.filled(buf, n)
	switch {
	case n > 0:
		return FoundPart
	case err != nil || in.buffered() > 0:
		return FoundOther
	}
	return FoundNothing
}

// TryResponse looks for the answer to a request of that method without waiting, and reads
// once. Nothing is taken before TakeResponse, which it is for the caller to say after
// FoundWhole: an answer whose body is here, or none, and by which the connection goes on.
func (c *Conn) TryResponse(r *Response, method []byte) Found {
	r.begin()
	in := &c.in
	if found := c.readNow(); found == FoundNothing || found == FoundOther {
		return found
	}
	n, err := c.indexHead(&r.Head, in.unread(), r.judgeLine, false)
	switch {
	case err != nil || in.full:
		return FoundOther
	case n == 0:
		return FoundPart
	}
	r.raw = append(r.raw, in.unread()[:n]...)
	if r.judge(string(method) == "HEAD") != nil || r.status < 200 || !r.KeepAlive() {
		return FoundOther
	}
	switch left := int64(in.buffered() - n); {
	case r.kind == NoBody:
		return FoundWhole
	case r.kind != Length || r.length > int64(len(in.buf)-n):
		return FoundOther
	case r.length > left:
		return FoundPart
	}
	return FoundWhole
}

// TakeResponse takes the answer that TryResponse has found whole.
func (c *Conn) TakeResponse(r *Response) {
	c.in.discard(len(r.raw))
	r.start(&c.in)
}

// AskNow is Ask without the wait: it looks, and sends what the socket takes at once. Finish
// sends what is left then.
func (c *Conn) AskNow(trailers []byte) error {
	w, in := &c.out, &c.in
	if err := w.end(trailers); err != nil {
		return err
	}
	if in.buffered() > 0 {
		return ErrNotQuiet
	}
	return in.sock.askNow(w)
}

// Undated says that the deadlines of the connection have been lifted, by its owner.
func (c *Conn) Undated() { c.in.until, c.out.until = time.Time{}, time.Time{} }

// Finish sends what AskNow has left, if there is anything, and waits until it is sent: no
// longer than a gate allows that has been set since.
func (c *Conn) Finish() error { return c.out.Flush() }

// Now has Flush and Close send what the socket takes at once, and return ErrUnsent if that
// is not all. What is left stays buffered.
func (w *Writer) Now(yes bool) { w.now = yes }

// sendNow is send for one who does not wait.
func (w *Writer) sendNow() error {
	n, err := w.sock.sendNow(w.buf[:w.n])
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
