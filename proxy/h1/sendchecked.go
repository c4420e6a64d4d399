package h1

// SendChecked ends a message like Writer.Close, sends it, and waits for the first bytes of the
// response. ReadResponse then reads the response. It is intended for a connection that has carried
// other requests.
//
// Right before sending, SendChecked checks that there is nothing to read, because unrequested data
// would be read as the response. If there is data, the end of the stream or an error, it returns
// ErrUnsolicitedData. If the precondition of the Writer returns an error, SendChecked returns that
// error. In both cases nothing was sent, and the message stays buffered.
//
// The check, the write and the start of the wait are one operation of the runtime's poller. This
// saves a read that would find no response yet. If ReadsSocketDirectly returns false, SendChecked does
// not check, and ReadResponse waits for the response.
func (c *Conn) SendChecked(trailers []byte) error {
	w, in := &c.out, &c.in
	if err := w.appendEnd(trailers); err != nil {
		return err
	}
	if in.sock == nil {
		return w.Flush()
	}
	if in.buffered() > 0 {
		return ErrUnsolicitedData
	}
	if err := in.setReadTimeout(c.timeouts.FirstByte); err != nil {
		return err
	}
	in.sock.sendBeforeRead = w
	err := in.fill() // calls sendFirst before it waits
	in.sock.sendBeforeRead = nil
	if err == nil && w.buffered > 0 { // the socket did not accept all data
		err = w.send(w.restTimeout)
	}
	return err
}
