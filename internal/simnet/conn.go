package simnet

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"time"
)

// conn is one end of a stream. Net.mu protects its fields.
type conn struct {
	host               *Host
	stream             *stream
	local, remote      *net.TCPAddr
	incoming, outgoing *direction

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
	network := c.host.network
	network.mu.Lock()
	defer network.mu.Unlock()
	for {
		if c.isFrozen() {
			network.await(&c.wake, nil, time.Time{})
			continue
		}
		read, err := c.tryRead(p)
		if read > 0 || len(p) == 0 || err != nil {
			return read, err
		}
		network.await(&c.wake, nil, c.nextReadEvent())
	}
}

// tryRead is Read without waiting. It returns 0 and no error if nothing has arrived.
func (c *conn) tryRead(p []byte) (int, error) {
	now := time.Now()
	if err := c.callError(now, c.readDeadline); err != nil {
		return 0, c.opError("read", err)
	}
	read, err := c.readArrived(p, now)
	switch {
	case errors.Is(err, io.EOF):
		return 0, io.EOF // not wrapped, as io.Reader requires
	case err != nil:
		return 0, c.opError("read", err)
	case read == 0 && len(p) > 0 && c.failure != nil:
		return 0, c.opError("read", c.failure)
	}
	return read, nil
}

// nextReadEvent returns when a waiting read must check again: at its deadline, or when the next segment
// arrives. The zero time means that it waits for c.wake only.
func (c *conn) nextReadEvent() time.Time {
	if len(c.incoming.segments) == 0 || c.incoming.segments[0].held {
		return c.readDeadline
	}
	return earlier(c.readDeadline, c.incoming.segments[0].arrival)
}

// readArrived moves arrived data to p. If the end of the direction is next, it returns the error
// for that end and leaves the segment in place.
func (c *conn) readArrived(p []byte, now time.Time) (int, error) {
	read := 0
	for read < len(p) && len(c.incoming.segments) > 0 {
		next := &c.incoming.segments[0]
		if next.endErr != nil && next.hasArrived(now) && read == 0 {
			return 0, next.endErr
		}
		if next.endErr != nil || !next.hasArrived(now) {
			break
		}
		copied := copy(p[read:], next.data)
		read += copied
		next.data = next.data[copied:]
		c.incoming.unreadBytes -= copied
		if len(next.data) == 0 {
			c.incoming.segments = c.incoming.segments[1:]
		}
	}
	if read > 0 {
		c.incoming.writer.wake.notifyAll()
	}
	return read, nil
}

// Write sends p, and waits while the window is full.
func (c *conn) Write(p []byte) (int, error) {
	network := c.host.network
	network.mu.Lock()
	defer network.mu.Unlock()
	written := 0
	for {
		if c.isFrozen() {
			network.await(&c.wake, nil, time.Time{})
			continue
		}
		now := time.Now()
		if err := c.callError(now, c.writeDeadline); err != nil {
			return written, c.opError("write", err)
		}
		if err := c.writeError(now); err != nil {
			return written, c.opError("write", err)
		}
		if c.outgoing.readerClosed {
			c.writeToClosed(now)
			return len(p), nil
		}
		freeWindow := window - c.outgoing.unreadBytes
		if size := min(len(p)-written, freeWindow); size > 0 {
			c.outgoing.send(network, segment{data: bytes.Clone(p[written : written+size])})
			written += size
		}
		if written == len(p) {
			return written, nil
		}
		network.await(&c.wake, nil, c.writeDeadline)
	}
}

// isFrozen reports whether the process of the caller is frozen.
func (c *conn) isFrozen() bool {
	return c.host.state == frozen && !c.closed
}

// callError returns the error that ends any call, regardless of the state of the stream: the end is
// closed, its process is dead, or the deadline has passed. nil means that the call may continue.
func (c *conn) callError(now, deadline time.Time) error {
	switch {
	case c.closed || c.host.state == dead:
		return net.ErrClosed
	case !deadline.IsZero() && !now.Before(deadline):
		return os.ErrDeadlineExceeded
	default:
		return nil
	}
}

// writeError returns the error for a write: ECONNRESET or ETIMEDOUT after a failure, EPIPE after the
// sending direction was closed, or once the reset of a closed reader has arrived. nil means that the
// write may continue.
func (c *conn) writeError(now time.Time) error {
	out := c.outgoing
	resetArrived := out.readerClosed && !out.resetAt.IsZero() && !now.Before(out.resetAt)
	switch {
	case c.failure != nil:
		return c.failure
	case out.endSent || resetArrived:
		return errPipe
	default:
		return nil
	}
}

// writeToClosed simulates a write to a reader that has closed: it seems to succeed, and the
// reset that it causes arrives one round trip later.
func (c *conn) writeToClosed(now time.Time) {
	network, from, to := c.host.network, c.outgoing.from.machine, c.outgoing.to.machine
	if c.outgoing.resetAt.IsZero() && network.canExchange(from, to) {
		c.outgoing.resetAt = now.Add(network.roundTrip(from, to))
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
	case !c.outgoing.endSent:
		c.outgoing.send(c.host.network, segment{endErr: io.EOF})
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

// closeWithError closes this end of the stream. The other end receives endErr, or a reset if this
// end has unread data.
func (c *conn) closeWithError(endErr error) {
	if c.closed {
		return
	}
	c.closed = true
	if c.incoming.hasUnreadData(time.Now()) {
		endErr = errReset
	}
	isReset := !errors.Is(endErr, io.EOF)
	if isReset || !c.outgoing.endSent {
		c.outgoing.send(c.host.network, segment{endErr: endErr})
	}
	c.incoming.discardUnread()
	c.wake.notifyAll()
	if c.stream.dialerEnd.closed && c.stream.listenerEnd.closed {
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
	c.outgoing.dropInTransit()
	c.outgoing.send(c.host.network, segment{endErr: errReset})
	c.incoming.discardUnread()
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

// setDeadlines sets all given deadlines to t, and wakes calls that wait. Zero means no deadline.
func (c *conn) setDeadlines(t time.Time, deadlines ...*time.Time) error {
	c.host.network.mu.Lock()
	defer c.host.network.mu.Unlock()
	if c.closed || c.host.state == dead {
		return c.opError("set", net.ErrClosed)
	}
	for _, deadline := range deadlines {
		*deadline = t
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
