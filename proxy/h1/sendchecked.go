package h1

// CanSendChecked reports whether SendChecked can check the connection before it sends.
func (c *Conn) CanSendChecked() bool { return c.in.sock != nil }

// SendChecked ends a message as Writer.Close does, sends it, and waits for the first bytes of
// the response, which ReadResponse then reads. Use it on a connection that has carried other
// exchanges.
//
// Right before sending, it checks that the connection has nothing to read: data that nobody
// requested would be taken for the response. If there is data, an end or an error, SendChecked
// returns ErrUnsolicitedData and has sent nothing. If the gate of the Writer refuses,
// SendChecked returns the error of the gate and has sent nothing. In both cases everything
// stays buffered.
//
// The check, the write and the start of the wait are one operation of the runtime's poller,
// which saves the read that would find no response yet. If CanSendChecked reports false,
// SendChecked does not check, and ReadResponse waits.
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
