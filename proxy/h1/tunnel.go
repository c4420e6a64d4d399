package h1

// Next returns bytes as they come, at least one, valid until the next read: for
// tunnels that look at what they carry. At the end of the stream it returns
// io.EOF. While it waits it holds no buffer.
func (c *Conn) Next() ([]byte, error) {
	in := &c.in
	if in.buffered() == 0 {
		in.release()
		if err := in.arm(in.body); err != nil {
			return nil, err
		}
		if err := in.moreLean(); err != nil {
			return nil, err
		}
	}
	p := in.unread()
	in.discard(len(p))
	return p, nil
}

// Idle gives the buffer back unless it holds unsent bytes.
func (w *Writer) Idle() { w.release() }
