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
	host          *Host
	stream        *stream
	local, remote *net.TCPAddr
	in, out       *direction

	readDeadline, writeDeadline time.Time
	closed                      bool
	// failure is the reason why the end broke without being closed.
	failure error
	// wake fires when anything changes for which a reader or writer waits.
	wake notifier
}

var _ net.Conn = (*conn)(nil)

// Read returns data that has arrived, or waits for some.
func (c *conn) Read(p []byte) (int, error) {
	n := c.host.network
	n.mu.Lock()
	defer n.mu.Unlock()
	for {
		if c.isFrozen() {
			n.await(&c.wake, nil, time.Time{})
			continue
		}
		now := time.Now()
		if err := c.callError(now, c.readDeadline); err != nil {
			return 0, c.opError("read", err)
		}
		if len(p) == 0 {
			return 0, nil
		}
		got, err := c.readArrived(p, now)
		if errors.Is(err, io.EOF) {
			return 0, io.EOF // not wrapped, as io.Reader requires
		}
		if err != nil {
			return 0, c.opError("read", err)
		}
		if got > 0 {
			return got, nil
		}
		if c.failure != nil {
			return 0, c.opError("read", c.failure)
		}
		until := c.readDeadline
		if len(c.in.segments) > 0 && !c.in.segments[0].held {
			until = earlier(until, c.in.segments[0].arrival)
		}
		n.await(&c.wake, nil, until)
	}
}

// readArrived moves arrived data to p. If the end of the direction is next, it returns the error
// for that end and leaves the segment in place.
func (c *conn) readArrived(p []byte, now time.Time) (int, error) {
	got := 0
	for got < len(p) && len(c.in.segments) > 0 {
		s := &c.in.segments[0]
		if !s.hasArrived(now) {
			break
		}
		if s.endErr != nil {
			if got > 0 {
				break
			}
			return 0, s.endErr
		}
		k := copy(p[got:], s.data)
		got += k
		s.data = s.data[k:]
		c.in.unreadBytes -= k
		if len(s.data) == 0 {
			c.in.segments = c.in.segments[1:]
		}
	}
	if got > 0 {
		c.in.writer.wake.notifyAll()
	}
	return got, nil
}

// Write sends p, and waits while the window is full.
func (c *conn) Write(p []byte) (int, error) {
	n := c.host.network
	n.mu.Lock()
	defer n.mu.Unlock()
	put := 0
	for {
		if c.isFrozen() {
			n.await(&c.wake, nil, time.Time{})
			continue
		}
		now := time.Now()
		if err := c.callError(now, c.writeDeadline); err != nil {
			return put, c.opError("write", err)
		}
		if err := c.writeError(now); err != nil {
			return put, c.opError("write", err)
		}
		if c.out.readerClosed {
			c.writeToClosed(now)
			return len(p), nil
		}
		if k := min(len(p)-put, window-c.out.unreadBytes); k > 0 {
			c.out.send(n, segment{data: append([]byte(nil), p[put:put+k]...)})
			put += k
		}
		if put == len(p) {
			return put, nil
		}
		n.await(&c.wake, nil, c.writeDeadline)
	}
}

// isFrozen reports whether the process of the caller is frozen.
func (c *conn) isFrozen() bool {
	return c.host.state == frozen && !c.closed
}

// callError returns the error that ends any call, regardless of the state of the stream: the end is
// closed, its process is dead, or the deadline has passed. nil means that the call may continue.
func (c *conn) callError(now, by time.Time) error {
	switch {
	case c.closed || c.host.state == dead:
		return net.ErrClosed
	case !by.IsZero() && !now.Before(by):
		return os.ErrDeadlineExceeded
	default:
		return nil
	}
}

// writeError returns the error for a write: ECONNRESET or ETIMEDOUT after a failure, EPIPE after the
// sending direction was closed, or once the reset of a closed reader has arrived. nil means that the
// write may continue.
func (c *conn) writeError(now time.Time) error {
	switch {
	case c.failure != nil:
		return c.failure
	case c.out.endSent:
		return errPipe
	case c.out.readerClosed && !c.out.resetAt.IsZero() && !now.Before(c.out.resetAt):
		return errPipe
	default:
		return nil
	}
}

// writeToClosed simulates a write to a reader that has closed: it seems to succeed, and the
// reset that it causes arrives one round trip later.
func (c *conn) writeToClosed(now time.Time) {
	n, from, to := c.host.network, c.out.from.machine, c.out.to.machine
	if c.out.resetAt.IsZero() && n.isRouteOpen(from, to) && n.isRouteOpen(to, from) {
		c.out.resetAt = now.Add(n.link(from, to).segmentDelay(n.rng) + n.link(to, from).segmentDelay(n.rng))
	}
}

// CloseWrite closes the sending direction.
func (c *conn) CloseWrite() error {
	c.host.network.mu.Lock()
	defer c.host.network.mu.Unlock()
	switch {
	case c.closed || c.host.state == dead:
		return c.opError("close", net.ErrClosed)
	case c.failure != nil:
		return c.opError("close", c.failure)
	case !c.out.endSent:
		c.out.send(c.host.network, segment{endErr: io.EOF})
		c.wake.notifyAll()
	}
	return nil
}

// Close closes the end. If data that has arrived is unread, the other side gets a reset
// instead of an end of stream, as with TCP.
func (c *conn) Close() error {
	c.host.network.mu.Lock()
	defer c.host.network.mu.Unlock()
	if c.closed {
		return c.opError("close", net.ErrClosed)
	}
	c.closeWithError(io.EOF)
	return nil
}

// closeWithError closes the end and sends end, or a reset if data is unread.
func (c *conn) closeWithError(end error) {
	if c.closed {
		return
	}
	c.closed = true
	now := time.Now()
	if len(c.in.segments) > 0 && c.in.segments[0].hasArrived(now) && c.in.segments[0].endErr == nil {
		end = errReset
	}
	if !c.out.endSent || !errors.Is(end, io.EOF) {
		c.out.send(c.host.network, segment{endErr: end})
	}
	c.in.discardUnread()
	c.wake.notifyAll()
	if c.stream.a.closed && c.stream.b.closed {
		delete(c.host.network.streams, c.stream)
	}
}

// breakWithError breaks the end after a timeout. The other side gets a reset as soon as a packet
// reaches it.
func (c *conn) breakWithError(err error) {
	if c.closed || c.failure != nil {
		return
	}
	c.failure = err
	c.out.dropInTransit()
	c.out.send(c.host.network, segment{endErr: errReset})
	c.in.discardUnread()
	c.wake.notifyAll()
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
	return c.setDeadlines(t, &c.readDeadline, &c.writeDeadline)
}

// SetReadDeadline sets the deadline for reads.
func (c *conn) SetReadDeadline(t time.Time) error {
	return c.setDeadlines(t, &c.readDeadline)
}

// SetWriteDeadline sets the deadline for writes.
func (c *conn) SetWriteDeadline(t time.Time) error {
	return c.setDeadlines(t, &c.writeDeadline)
}

func (c *conn) setDeadlines(t time.Time, by ...*time.Time) error {
	c.host.network.mu.Lock()
	defer c.host.network.mu.Unlock()
	if c.closed || c.host.state == dead {
		return c.opError("set", net.ErrClosed)
	}
	for _, d := range by {
		*d = t
	}
	c.wake.notifyAll()
	return nil
}

// earlier returns the earlier time. The zero time means none.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || (!b.IsZero() && b.Before(a)) {
		return b
	}
	return a
}
