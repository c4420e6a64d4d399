package h1

// CanSendChecked reports whether SendChecked looks at the connection before it sends.
func (c *Conn) CanSendChecked() bool { return c.in.sock != nil }

// SendChecked ends a message as Writer.Close does, sends it, and waits for the first bytes of
// the answer: ReadResponse then reads it. It is for a connection that has carried
// others, and looks at it right before it sends. What is there to read then nobody
// asked for, and would be taken for the answer: that, an end and an error are
// ErrUnsolicitedData, and nothing has been sent. When the gate refuses, its error is returned
// and nothing sent either; everything stays buffered.
//
// It looks, sends and begins to wait in one: that saves a system call, the read that
// finds no answer yet. A Conn that cannot ask does not look, and waits in ReadResponse.
func (c *Conn) SendChecked(trailers []byte) error {
	w, in := &c.out, &c.in
	if err := w.end(trailers); err != nil {
		return err
	}
	if in.sock == nil {
		return w.Flush()
	}
	if in.buffered() > 0 {
		return ErrUnsolicitedData
	}
	if err := in.arm(c.timeouts.First); err != nil {
		return err
	}
	in.sock.sendBeforeRead = w
	err := in.fill()
	in.sock.sendBeforeRead = nil
	if err == nil && w.n > 0 {
		err = w.send(w.rest)
	}
	return err
}
