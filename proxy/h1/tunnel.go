package h1

// Next returns bytes as they come, at least one, valid until the next read: for
// tunnels that look at what they carry. At the end of the stream it returns
// io.EOF. While it waits it holds a buffer only where it must.
func (c *Conn) Next() ([]byte, error) {
	in := &c.in
	if in.buffered() == 0 {
		if in.sock != nil {
			in.release()
		} else if in.buf == nil {
			in.buf = in.pool.get(in.size)
		}
		if err := in.arm(in.body); err != nil {
			return nil, err
		}
		if err := in.fill(); err != nil {
			return nil, err
		}
	}
	p := in.unread()
	in.discard(len(p))
	return p, nil
}

// Idle gives the buffer back unless it holds unsent bytes.
func (w *Writer) Idle() { w.release() }
