package peer

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// How often a prompt connection looks for itself whether something has come, to the grain
// of looks. The first is no part of a heartbeat: where the second look came as often as the
// next message was due, it met what the poller was about to say, and took that for behind.
// The second holds for oftenReads reads after a look has found something, which the
// runtime's poller had not said yet: it is behind.
const (
	slowPollInterval   = 60 * time.Millisecond
	fastPollInterval   = 10 * time.Millisecond
	fastReadCount      = 64
	directPollInterval = 5 * time.Millisecond
)

// readWriter is what a prompt connection reads from and writes to.
type readWriter interface {
	Read(b []byte) (int, error)
	Write(b []byte) (int, error)
	SetReadDeadline(t time.Time) error
}

// sooner tells whether what the last Read returned was there when it began. Who cannot tell
// is judged by how long it took.
type immediateReader interface{ AtOnce() bool }

// prompt is a connection whose reads do not wait for the runtime's poller alone.
//
// A process whose cores are all busy with thousands of connections hears from the
// poller in turn: what came on one connection is read after what came on all the
// others before, half a second later when 3 000 clients ask at once. Requests may
// wait that long, heartbeats may not: a lease is gone by then. Timers are looked at
// before each goroutine that runs, so a read that one of them ends, and that begins
// again, sees what is there within that time.
//
// One goroutine reads at a time.
type lowLatencyConn struct {
	*net.TCPConn
	rw readWriter

	poller    *readPoller // nil: it does not look
	pollerOff atomic.Bool // it waits its turn from now on
	fastReads int         // reads for which to look often; the reader's
	// divert has what is written; nil: the socket has. A port that closes says goodbye by any
	// goroutine.
	interceptor atomic.Pointer[func([]byte)]

	mu           sync.Mutex
	readDeadline time.Time // the reader's deadline; zero: none
	pollAt       time.Time // when the read under way is to look; zero: none is, or it looks
	interrupted  bool      // it has been given a deadline in the past, in the place of until
}

// promptly makes reads of a TCP connection prompt. Others stay as they are.
func newLowLatencyConn(c net.Conn, rp *readPoller) net.Conn {
	t, ok := c.(*net.TCPConn)
	if !ok {
		return c
	}
	p := &lowLatencyConn{TCPConn: t, rw: newRaw(t), poller: rp}
	if rp != nil {
		rp.add(p)
	}
	return p
}

// mistrust makes a connection that comes from no node's address wait its turn until it is
// settled: whoever connects and says nothing would cost twenty looks a second, and two
// hundred where the process is behind. No read or write may be under way.
func disablePolling(c net.Conn) {
	if p, ok := c.(*lowLatencyConn); ok {
		p.pollerOff.Store(true)
	}
}

// settle is told what a stream over c turned out to be for. What carries requests
// waits its turn: they are many, and what makes a machine busy. It returns the
// connection to use if nothing wraps c: who has one for each request reads the socket
// itself. No read or write may be under way.
func applyKind(c net.Conn, k Kind) net.Conn {
	p, ok := c.(*lowLatencyConn)
	if !ok {
		return c
	}
	if !k.forwards() {
		p.pollerOff.Store(false)
		return c
	}
	p.pollerOff.Store(true)
	if p.poller != nil {
		p.poller.remove(p)
	}
	if k != Forward {
		return c
	}
	return p.TCPConn
}

// Read implements net.Conn.
func (c *lowLatencyConn) Read(b []byte) (int, error) {
	if c.pollerOff.Load() {
		return c.rw.Read(b)
	}
	for looked := false; ; looked = true {
		begun := time.Now()
		if n, done, err := c.pollDirectly(b, begun); done {
			return n, err
		}
		c.startRead(begun.Add(c.pollInterval()))
		n, err := c.rw.Read(b)
		look, broken := c.endRead()
		switch {
		case n == 0 && look && errors.Is(err, os.ErrDeadlineExceeded):
			if broken != nil {
				return 0, broken
			}
			continue
		case looked && c.wasImmediate(begun):
			c.fastReads = fastReadCount // it was there already
		case c.fastReads > 0:
			c.fastReads--
		}
		return n, err
	}
}

// begin notes when the read that begins now is to look.
func (c *lowLatencyConn) startRead(due time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pollAt = due
}

// look ends the read under way if it is to look by now.
func (c *lowLatencyConn) interruptIfDue(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pollAt.IsZero() || c.pollAt.After(now) {
		return
	}
	c.pollAt, c.interrupted = time.Time{}, true
	_ = c.rw.SetReadDeadline(time.Unix(1, 0)) // where that fails, so does the read
}

// end reports whether the read that has ended was to look. Then the connection has got
// back the reader's own deadline, unless an error says otherwise.
func (c *lowLatencyConn) endRead() (look bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if look = c.interrupted; look {
		err = c.rw.SetReadDeadline(c.readDeadline)
	}
	c.pollAt, c.interrupted = time.Time{}, false
	return look, err
}

// atOnce reports whether the read that began then did not wait.
func (c *lowLatencyConn) wasImmediate(begun time.Time) bool {
	if in, ok := c.rw.(immediateReader); ok {
		return in.AtOnce()
	}
	return time.Since(begun) < time.Millisecond
}

// poll reads without the poller as long as the process is behind: whom the poller wakes
// is at the end of the line, from where no deadline brings him forward. Done is false once
// it is not behind.
func (c *lowLatencyConn) pollDirectly(b []byte, now time.Time) (n int, done bool, err error) {
	in, ok := c.rw.(interface {
		Look(b []byte) (n int, there bool, err error)
	})
	if !ok || c.poller == nil {
		return 0, false, nil
	}
	for c.poller.latency.isHigh(now) {
		if n, there, err := in.Look(b); there {
			return n, true, err
		}
		if c.deadlinePassed(now) {
			return 0, true, os.ErrDeadlineExceeded
		}
		time.Sleep(directPollInterval)
		now = time.Now()
	}
	return 0, false, nil
}

// Write implements net.Conn.
func (c *lowLatencyConn) Write(b []byte) (int, error) {
	if to := c.interceptor.Load(); to != nil {
		(*to)(b)
		return len(b), nil
	}
	return c.rw.Write(b)
}

// Divert has all that is written go to to from now on, and returns what takes it to the
// socket: who writes to TLS above does not wait then. No write may be under way but a goodbye.
func (c *lowLatencyConn) Divert(to func(b []byte)) (under io.Writer) {
	c.interceptor.Store(&to)
	return c.rw
}

func (c *lowLatencyConn) pollInterval() time.Duration {
	if c.fastReads > 0 {
		return fastPollInterval
	}
	return slowPollInterval
}

// over reports that the reader's deadline is past.
func (c *lowLatencyConn) deadlinePassed(now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.readDeadline.IsZero() && !c.readDeadline.After(now)
}

// SetReadDeadline implements net.Conn.
func (c *lowLatencyConn) SetReadDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.readDeadline = t
	if c.interrupted {
		return nil // end sets it
	}
	return c.rw.SetReadDeadline(t)
}

// Close implements net.Conn.
func (c *lowLatencyConn) Close() error {
	if c.poller != nil {
		c.poller.remove(c)
	}
	return c.TCPConn.Close()
}

// SetDeadline implements net.Conn.
func (c *lowLatencyConn) SetDeadline(t time.Time) error {
	if err := c.SetWriteDeadline(t); err != nil {
		return err
	}
	return c.SetReadDeadline(t)
}
