package simnet

import (
	"errors"
	"io"
	"net"
	"os"
	"time"
)

// conn is one end of a stream. Its fields are guarded by Net.mu.
type conn struct {
	h             *Host
	s             *stream
	local, remote *net.TCPAddr
	in, out       *half

	readBy, writeBy time.Time
	closed          bool
	// failed is why the end broke without being closed.
	failed error
	// wake fires when anything changes that a reader or writer waits for.
	wake latch
}

var _ net.Conn = (*conn)(nil)

// Read returns bytes that have arrived, or waits for some.
func (c *conn) Read(p []byte) (int, error) {
	n := c.h.n
	n.mu.Lock()
	defer n.mu.Unlock()
	for {
		if c.stands() {
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
			return 0, io.EOF // bare, as the io.Reader contract wants it
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

// take moves arrived bytes to p. It returns the end of the half when that is
// what comes next; the end stays.
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

// Write puts p on its way, waiting while the window is full.
func (c *conn) Write(p []byte) (int, error) {
	n := c.h.n
	n.mu.Lock()
	defer n.mu.Unlock()
	put := 0
	for {
		if c.stands() {
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
			c.pokeGone(now)
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

// stands reports whether the caller's process stands still.
func (c *conn) stands() bool {
	return c.h.state == frozen && !c.closed
}

// unusable returns what ends any call, before the stream itself is looked at.
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

// pokeGone is a write to a reader that has closed: it seems to succeed, and
// the reset it causes comes back a round trip later.
func (c *conn) pokeGone(now time.Time) {
	n, from, to := c.h.n, c.out.from.m, c.out.to.m
	if c.out.resetAt.IsZero() && n.open(from, to) && n.open(to, from) {
		c.out.resetAt = now.Add(n.link(from, to).segment(n.rng) + n.link(to, from).segment(n.rng))
	}
}

// CloseWrite ends this side's half.
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

// Close closes the end. If bytes that have arrived are unread, the other side
// gets a reset instead of an end, as TCP does it.
func (c *conn) Close() error {
	c.h.n.mu.Lock()
	defer c.h.n.mu.Unlock()
	if c.closed {
		return c.opError("close", net.ErrClosed)
	}
	c.shut(io.EOF)
	return nil
}

// shut closes the end and sends end, or a reset if something was unread.
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

// fail breaks the end: the connection timed out. The other side learns of it
// by a reset once something gets through to it.
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

// LocalAddr returns this side's *net.TCPAddr.
func (c *conn) LocalAddr() net.Addr { return c.local }

// RemoteAddr returns the other side's.
func (c *conn) RemoteAddr() net.Addr { return c.remote }

// SetDeadline bounds reads and writes; the zero time unbounds them.
func (c *conn) SetDeadline(t time.Time) error {
	return c.setDeadlines(t, &c.readBy, &c.writeBy)
}

// SetReadDeadline bounds reads.
func (c *conn) SetReadDeadline(t time.Time) error {
	return c.setDeadlines(t, &c.readBy)
}

// SetWriteDeadline bounds writes.
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

// sooner returns the earlier time, a zero one being none.
func sooner(a, b time.Time) time.Time {
	if a.IsZero() || (!b.IsZero() && b.Before(a)) {
		return b
	}
	return a
}
