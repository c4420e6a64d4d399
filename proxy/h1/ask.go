package h1

// CanAsk reports whether Ask looks at the connection before it sends.
func (c *Conn) CanAsk() bool { return c.in.sock != nil }

// Ask ends a message as Writer.Close does, sends it, and waits for the first bytes of
// the answer: ReadResponse then reads it. It is for a connection that has carried
// others, and looks at it right before it sends. What is there to read then nobody
// asked for, and would be taken for the answer: that, an end and an error are
// ErrNotQuiet, and nothing has been sent. When the gate refuses, its error is returned
// and nothing sent either; everything stays buffered.
//
// It looks, sends and begins to wait in one: that saves a system call, the read that
// finds no answer yet. A Conn that cannot ask does not look, and waits in ReadResponse.
func (c *Conn) Ask(trailers []byte) error {
	w, in := &c.out, &c.in
	if err := w.end(trailers); err != nil {
		return err
	}
	if in.sock == nil {
		return w.Flush()
	}
	if in.buffered() > 0 {
		return ErrNotQuiet
	}
	if err := in.arm(c.timeouts.First); err != nil {
		return err
	}
	in.sock.asks = w
	err := in.fill()
	in.sock.asks = nil
	if err == nil && w.n > 0 {
		err = w.send(w.rest)
	}
	return err
}
