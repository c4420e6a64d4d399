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

// The intervals at which a low-latency connection polls the socket, rounded to pollerTick.
//
// slowPollInterval must not divide the heartbeat interval. Otherwise polls coincide with messages
// that the runtime poller is about to deliver, and are mistaken for a sign of backlog.
// fastPollInterval applies for fastReadCount reads after a poll has found data that the runtime
// poller had not delivered, which means that the process is overloaded. directPollInterval is the
// interval of pollDirectly.
const (
	slowPollInterval   = 60 * time.Millisecond
	fastPollInterval   = 10 * time.Millisecond
	fastReadCount      = 64
	directPollInterval = 5 * time.Millisecond
)

// readWriter is the socket of a low-latency connection.
type readWriter interface {
	Read(b []byte) (int, error)
	Write(b []byte) (int, error)
	SetReadDeadline(t time.Time) error
}

// immediateReader reports whether the data of the last Read was available when Read began. For
// readers without this method, the duration of Read is used instead.
type immediateReader interface{ ReadImmediately() bool }

// nonBlockingReader reads without blocking. ready is false if there is neither data nor an error.
type nonBlockingReader interface {
	TryRead(b []byte) (n int, ready bool, err error)
}

// lowLatencyConn is a connection whose reads do not depend on the runtime poller alone.
//
// If all cores are busy with thousands of connections, the runtime poller delivers data in order:
// data of one connection is read after the data of all connections before it, which takes half a
// second with 3,000 simultaneous requests. Requests tolerate this delay, but a lease expires
// within it, so heartbeats do not. The scheduler checks timers before each goroutine that it runs.
// A read that a timer interrupts and that starts again therefore sees pending data within the
// timer interval.
//
// Only one goroutine may read at a time.
type lowLatencyConn struct {
	*net.TCPConn
	socket readWriter

	poller    *readPoller // nil disables polling
	pollerOff atomic.Bool // reads wait for the runtime poller only
	fastReads int         // reads for which fastPollInterval applies; used by the reader only
	// interceptor receives all writes; nil sends them to the socket. It is atomic because closing the port sends a TLS
	// alert from any goroutine.
	interceptor atomic.Pointer[func([]byte)]

	// mu protects the following fields.
	mu           sync.Mutex
	readDeadline time.Time // deadline that the reader has set; zero means none
	pollAt       time.Time // when to interrupt the current read; zero if there is none or it was interrupted
	interrupted  bool      // the socket's deadline is set in the past, instead of to readDeadline
}

// newLowLatencyConn makes reads of a TCP connection low-latency. It returns other connections
// unchanged.
func newLowLatencyConn(netConn net.Conn, poller *readPoller) net.Conn {
	tcpConn, ok := netConn.(*net.TCPConn)
	if !ok {
		return netConn
	}
	conn := &lowLatencyConn{TCPConn: tcpConn, socket: newRawConn(tcpConn), poller: poller}
	if poller != nil {
		poller.add(conn)
	}
	return conn
}

// disablePolling disables polling for a connection from an address that belongs to no node, until applyKind is called.
// Otherwise each such idle connection would cost 20 polls per second, or 200 in an overloaded process. No read or write
// may be in progress.
func disablePolling(netConn net.Conn) {
	if conn, ok := netConn.(*lowLatencyConn); ok {
		conn.pollerOff.Store(true)
	}
}

// applyKind configures the connection for the kind of stream it carries. Request streams are not polled: there are many
// of them, and polling them all would overload the machine. applyKind returns the connection that a caller without a
// TLS layer should use from now on. For a Forward stream, which carries a single request, that is the bare TCP
// connection. No read or write may be in progress.
func applyKind(netConn net.Conn, kind Kind) net.Conn {
	conn, ok := netConn.(*lowLatencyConn)
	if !ok {
		return netConn
	}
	if !kind.forwards() {
		conn.pollerOff.Store(false)
		return netConn
	}
	conn.pollerOff.Store(true)
	if conn.poller != nil {
		conn.poller.remove(conn)
	}
	if kind != Forward {
		return netConn
	}
	return conn.TCPConn
}

// Read implements net.Conn.
func (c *lowLatencyConn) Read(b []byte) (int, error) {
	if c.pollerOff.Load() {
		return c.socket.Read(b)
	}
	for wasInterrupted := false; ; wasInterrupted = true {
		start := time.Now()
		if n, done, err := c.pollDirectly(b, start); done {
			return n, err
		}
		c.startRead(start.Add(c.pollInterval()))
		n, err := c.socket.Read(b)
		interrupted, restoreErr := c.endRead()
		endedByPoll := n == 0 && interrupted && errors.Is(err, os.ErrDeadlineExceeded)
		if !endedByPoll {
			c.adjustPolling(wasInterrupted && c.wasImmediate(start))
			return n, err
		}
		if restoreErr != nil {
			return 0, restoreErr
		}
	}
}

// adjustPolling selects the polling interval of the next reads. foundByPoll is set if a poll found data that the
// runtime poller had not delivered.
func (c *lowLatencyConn) adjustPolling(foundByPoll bool) {
	if foundByPoll {
		c.fastReads = fastReadCount
	} else if c.fastReads > 0 {
		c.fastReads--
	}
}

// startRead records when to interrupt the read that starts now.
func (c *lowLatencyConn) startRead(due time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pollAt = due
}

// interruptIfDue interrupts the current read if it is due.
func (c *lowLatencyConn) interruptIfDue(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pollAt.IsZero() || c.pollAt.After(now) {
		return
	}
	c.pollAt, c.interrupted = time.Time{}, true
	_ = c.socket.SetReadDeadline(time.Unix(1, 0)) // if this fails, the read also fails
}

// endRead reports whether the read that just returned was interrupted. If so, it restores the reader's deadline.
func (c *lowLatencyConn) endRead() (interrupted bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	interrupted = c.interrupted
	if interrupted {
		err = c.socket.SetReadDeadline(c.readDeadline)
	}
	c.pollAt, c.interrupted = time.Time{}, false
	return interrupted, err
}

// wasImmediate reports whether the read that began at start did not wait.
func (c *lowLatencyConn) wasImmediate(start time.Time) bool {
	if reader, ok := c.socket.(immediateReader); ok {
		return reader.ReadImmediately()
	}
	return time.Since(start) < time.Millisecond
}

// pollDirectly reads with non-blocking calls, bypassing the runtime poller, while the scheduler is
// backlogged. A goroutine readied by the poller joins the end of the run queue, and a deadline
// does not move it forward. It reports done == false once there is no backlog.
func (c *lowLatencyConn) pollDirectly(b []byte, now time.Time) (n int, done bool, err error) {
	reader, ok := c.socket.(nonBlockingReader)
	if !ok || c.poller == nil {
		return 0, false, nil
	}
	for c.poller.latency.isHigh(now) {
		if n, ready, err := reader.TryRead(b); ready {
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
	if intercept := c.interceptor.Load(); intercept != nil {
		(*intercept)(b)
		return len(b), nil
	}
	return c.socket.Write(b)
}

// Divert passes all further writes to the function to, and returns a writer for the socket. With
// it, writing to a TLS layer above never blocks. No write may be in progress, except a TLS alert.
func (c *lowLatencyConn) Divert(to func(b []byte)) (direct io.Writer) {
	c.interceptor.Store(&to)
	return c.socket
}

func (c *lowLatencyConn) pollInterval() time.Duration {
	if c.fastReads > 0 {
		return fastPollInterval
	}
	return slowPollInterval
}

// deadlinePassed reports whether the reader's deadline has passed.
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
		return nil // endRead sets it
	}
	return c.socket.SetReadDeadline(t)
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
