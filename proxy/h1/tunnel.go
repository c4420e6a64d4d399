package h1

import "time"

// Next returns bytes as they come, at least one, valid until the next read: for
// tunnels that look at what they carry. At the end of the stream it returns
// io.EOF. While it waits it holds no buffer.
func (c *Conn) Next() ([]byte, error) {
	p, err := c.Peek()
	c.in.discard(len(p))
	return p, err
}

// Peek is Next that leaves the bytes where they are: Take takes as many of them as were
// wanted, and what remains comes again.
func (c *Conn) Peek() ([]byte, error) { return c.PeekFor(c.in.body) }

// PeekFor is Peek that waits no longer than d (zero: for ever): then it returns
// os.ErrDeadlineExceeded.
func (c *Conn) PeekFor(d time.Duration) ([]byte, error) {
	in := &c.in
	if in.buffered() == 0 {
		in.release()
		if err := in.arm(d); err != nil {
			return nil, err
		}
		if err := in.moreLean(); err != nil {
			return nil, err
		}
	}
	return in.unread(), nil
}

// Take takes n of the bytes that Peek has returned.
func (c *Conn) Take(n int) { c.in.discard(n) }

// PauseRead makes a running Peek or Next, or else the next one that would have to wait,
// return ErrPaused until ResumeRead. Nothing is lost by it. Any goroutine may call it.
func (c *Conn) PauseRead() {
	in := &c.in
	in.mu.Lock()
	defer in.mu.Unlock()
	in.mu.paused = true
	_ = in.nc.SetReadDeadline(past()) // a closed connection reads nothing
	in.unpark()
}

// ResumeRead ends PauseRead. Only the goroutine that reads calls it.
func (c *Conn) ResumeRead() {
	in := &c.in
	in.mu.Lock()
	defer in.mu.Unlock()
	if !in.mu.paused {
		return
	}
	in.mu.paused = false
	if !in.mu.stopRead {
		in.until = time.Time{}
		_ = in.nc.SetReadDeadline(time.Time{}) // the next reader sees the error
	}
}

// Idle gives the buffer back unless it holds unsent bytes.
func (w *Writer) Idle() { w.release() }
