package simnet

import (
	"errors"
	"io"
	"net"
	"os"
	"time"
)

// conn is one end of a stream. Net.mu protects its fields.
type conn struct {
	h             *Host
	s             *stream
	local, remote *net.TCPAddr
	in, out       *half

	readBy, writeBy time.Time
	closed          bool
	// failed is the reason why the end broke without being closed.
	failed error
	// wake fires when anything changes for which a reader or writer waits.
	wake latch
}

var _ net.Conn = (*conn)(nil)

// Read returns data that has arrived, or waits for some.
func (c *conn) Read(p []byte) (int, error) {
	n := c.h.n
	n.mu.Lock()
	defer n.mu.Unlock()
	for {
		if c.isFrozen() {
			n.await(&c.wake, nil, time.Time{})
			continue
		}
		now := time.Now()
		if err := c.unusable(now, c.readBy); err != nil {
			return 0, c.opError("read", err)
		}
		if len(p) == 0 {
			return 0, nil
		}
		got, err := c.take(p, now)
		if errors.Is(err, io.EOF) {
			return 0, io.EOF // not wrapped, as io.Reader requires
		}
		if err != nil {
			return 0, c.opError("read", err)
		}
		if got > 0 {
			return got, nil
		}
		if c.failed != nil {
			return 0, c.opError("read", c.failed)
		}
		until := c.readBy
		if len(c.in.segs) > 0 && !c.in.segs[0].held {
			until = sooner(until, c.in.segs[0].at)
		}
		n.await(&c.wake, nil, until)
	}
}

// take moves arrived data to p. If the end of the half is next, it returns that end and
// leaves it in place.
func (c *conn) take(p []byte, now time.Time) (int, error) {
	got := 0
	for got < len(p) && len(c.in.segs) > 0 {
		s := &c.in.segs[0]
		if !s.arrived(now) {
			break
		}
		if s.end != nil {
			if got > 0 {
				break
			}
			return 0, s.end
		}
		k := copy(p[got:], s.data)
		got += k
		s.data = s.data[k:]
		c.in.size -= k
		if len(s.data) == 0 {
			c.in.segs = c.in.segs[1:]
		}
	}
	if got > 0 {
		c.in.writer.wake.fire()
	}
	return got, nil
}

// Write sends p, and waits while the window is full.
func (c *conn) Write(p []byte) (int, error) {
	n := c.h.n
	n.mu.Lock()
	defer n.mu.Unlock()
	put := 0
	for {
		if c.isFrozen() {
			n.await(&c.wake, nil, time.Time{})
			continue
		}
		now := time.Now()
		if err := c.unusable(now, c.writeBy); err != nil {
			return put, c.opError("write", err)
		}
		if err := c.unwritable(now); err != nil {
			return put, c.opError("write", err)
		}
		if c.out.gone {
			c.writeToClosed(now)
			return len(p), nil
		}
		if k := min(len(p)-put, window-c.out.size); k > 0 {
			c.out.send(n, segment{data: append([]byte(nil), p[put:put+k]...)})
			put += k
		}
		if put == len(p) {
			return put, nil
		}
		n.await(&c.wake, nil, c.writeBy)
	}
}

// isFrozen reports whether the process of the caller is frozen.
func (c *conn) isFrozen() bool {
	return c.h.state == frozen && !c.closed
}

// unusable returns an error that ends any call, regardless of the state of the stream.
func (c *conn) unusable(now, by time.Time) error {
	switch {
	case c.closed || c.h.state == dead:
		return net.ErrClosed
	case !by.IsZero() && !now.Before(by):
		return os.ErrDeadlineExceeded
	default:
		return nil
	}
}

func (c *conn) unwritable(now time.Time) error {
	switch {
	case c.failed != nil:
		return c.failed
	case c.out.ended:
		return errPipe
	case c.out.gone && !c.out.resetAt.IsZero() && !now.Before(c.out.resetAt):
		return errPipe
	default:
		return nil
	}
}

// writeToClosed simulates a write to a reader that has closed: it seems to succeed, and the
// reset that it causes arrives one round trip later.
func (c *conn) writeToClosed(now time.Time) {
	n, from, to := c.h.n, c.out.from.m, c.out.to.m
	if c.out.resetAt.IsZero() && n.open(from, to) && n.open(to, from) {
		c.out.resetAt = now.Add(n.link(from, to).segment(n.rng) + n.link(to, from).segment(n.rng))
	}
}

// CloseWrite closes the sending direction.
func (c *conn) CloseWrite() error {
	c.h.n.mu.Lock()
	defer c.h.n.mu.Unlock()
	switch {
	case c.closed || c.h.state == dead:
		return c.opError("close", net.ErrClosed)
	case c.failed != nil:
		return c.opError("close", c.failed)
	case !c.out.ended:
		c.out.send(c.h.n, segment{end: io.EOF})
		c.wake.fire()
	}
	return nil
}

// Close closes the end. If data that has arrived is unread, the other side gets a reset
// instead of an end of stream, as with TCP.
func (c *conn) Close() error {
	c.h.n.mu.Lock()
	defer c.h.n.mu.Unlock()
	if c.closed {
		return c.opError("close", net.ErrClosed)
	}
	c.shut(io.EOF)
	return nil
}

// shut closes the end and sends end, or a reset if data is unread.
func (c *conn) shut(end error) {
	if c.closed {
		return
	}
	c.closed = true
	now := time.Now()
	if len(c.in.segs) > 0 && c.in.segs[0].arrived(now) && c.in.segs[0].end == nil {
		end = errReset
	}
	if !c.out.ended || !errors.Is(end, io.EOF) {
		c.out.send(c.h.n, segment{end: end})
	}
	c.in.discard()
	c.wake.fire()
	if c.s.a.closed && c.s.b.closed {
		delete(c.h.n.streams, c.s)
	}
}

// fail breaks the end after a timeout. The other side gets a reset as soon as a packet
// reaches it.
func (c *conn) fail(err error) {
	if c.closed || c.failed != nil {
		return
	}
	c.failed = err
	c.out.drop()
	c.out.send(c.h.n, segment{end: errReset})
	c.in.discard()
	c.wake.fire()
}

func (c *conn) opError(op string, err error) error {
	return &net.OpError{Op: op, Net: "tcp", Source: c.local, Addr: c.remote, Err: err}
}

// LocalAddr returns the *net.TCPAddr of this side.
func (c *conn) LocalAddr() net.Addr { return c.local }

// RemoteAddr returns the *net.TCPAddr of the other side.
func (c *conn) RemoteAddr() net.Addr { return c.remote }

// SetDeadline sets both deadlines. The zero time means none.
func (c *conn) SetDeadline(t time.Time) error {
	return c.setDeadlines(t, &c.readBy, &c.writeBy)
}

// SetReadDeadline sets the deadline for reads.
func (c *conn) SetReadDeadline(t time.Time) error {
	return c.setDeadlines(t, &c.readBy)
}

// SetWriteDeadline sets the deadline for writes.
func (c *conn) SetWriteDeadline(t time.Time) error {
	return c.setDeadlines(t, &c.writeBy)
}

func (c *conn) setDeadlines(t time.Time, by ...*time.Time) error {
	c.h.n.mu.Lock()
	defer c.h.n.mu.Unlock()
	if c.closed || c.h.state == dead {
		return c.opError("set", net.ErrClosed)
	}
	for _, d := range by {
		*d = t
	}
	c.wake.fire()
	return nil
}

// sooner returns the earlier time. The zero time means none.
func sooner(a, b time.Time) time.Time {
	if a.IsZero() || (!b.IsZero() && b.Before(a)) {
		return b
	}
	return a
}
