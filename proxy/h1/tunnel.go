package h1

import "time"

// ReadData waits for data, and returns at least one byte. The result is valid until the next read.
// At the end of the stream ReadData returns io.EOF. While it waits, it holds no buffer. It is used
// for tunnels that inspect their data.
func (c *Conn) ReadData() ([]byte, error) {
	p, err := c.Peek()
	c.in.discard(len(p))
	return p, err
}

// Peek is like ReadData, but does not consume the bytes. The caller consumes some or all of them
// with Consume; the next Peek returns the rest again.
func (c *Conn) Peek() ([]byte, error) { return c.PeekFor(c.in.bodyTimeout) }

// PeekFor is like Peek, but waits up to the timeout; zero means no limit. After the timeout it
// returns os.ErrDeadlineExceeded.
func (c *Conn) PeekFor(timeout time.Duration) ([]byte, error) {
	in := &c.in
	if in.buffered() == 0 {
		in.releaseEmptyBuffer()
		if err := in.setReadTimeout(timeout); err != nil {
			return nil, err
		}
		if err := in.readMoreWithSmallBuffer(); err != nil {
			return nil, err
		}
	}
	return in.unread(), nil
}

// Consume consumes n of the bytes that Peek has returned.
func (c *Conn) Consume(n int) { c.in.discard(n) }

// PauseRead makes a Peek or ReadData in progress return ErrPaused. If none is in progress, the next
// one that has to wait returns ErrPaused. This lasts until ResumeRead. No data is lost. Any
// goroutine may call PauseRead.
func (c *Conn) PauseRead() {
	in := &c.in
	in.mu.Lock()
	defer in.mu.Unlock()
	in.mu.paused = true
	_ = in.nc.SetReadDeadline(past()) // an error does not matter, because reads from a closed connection fail
	in.unpark()
}

// ResumeRead ends the effect of PauseRead. Only the reading goroutine may call it.
func (c *Conn) ResumeRead() {
	in := &c.in
	in.mu.Lock()
	defer in.mu.Unlock()
	if !in.mu.paused {
		return
	}
	in.mu.paused = false
	if !in.mu.stopRead {
		in.deadline = time.Time{}
		_ = in.nc.SetReadDeadline(time.Time{}) // after an error, the next read fails
	}
}

// ReleaseEmptyBuffer returns the buffer to the pool, unless it contains unsent bytes.
func (w *Writer) ReleaseEmptyBuffer() { w.releaseEmptyBuffer() }
