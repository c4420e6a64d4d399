package h1

import (
	"net"
	"sync/atomic"
	"time"
)

// Conn is a connection that carries HTTP/1 messages, on the client side or the server side. It
// borrows buffers from a pool when there is data to read or write. ReleaseEmptyBuffers and
// ReleaseBuffers return them.
type Conn struct {
	nc       net.Conn
	timeouts Timeouts
	in       connReader   // reading half
	headers  headerReader // reads headers from in
	out      Writer       // writing half

	watch watch    // the watch of WatchDisconnect
	alive liveness // the check of IsAlive

	lingering   *Lingering  // Options.Lingering
	closed      atomic.Bool // Close or Abort was called
	wakeup      wakeup      // set by SetWakeup
	spareSocket *socket     // memory for in.sock, kept by Clear for Reset; nil means none
}

// NewConn returns a Conn that uses nc. If possible, nc should be the *net.TCPConn or *net.UnixConn
// itself, because a wrapper prevents direct system calls: see Options.Direct.
func NewConn(nc net.Conn, options Options) *Conn {
	c := &Conn{}
	c.Reset(nc, options)
	return c
}

// Reset makes c a Conn that uses nc, like NewConn, and reuses the memory of an ended connection.
// The ended connection must have been released, and no goroutine may still close or inspect it.
func (c *Conn) Reset(nc net.Conn, options Options) {
	c.Clear()
	options = options.withDefaults()
	c.nc, c.lingering = nc, options.Lingering
	sock := newSocket(c.spareSocket, nc, &options)
	if sock != nil {
		c.spareSocket = sock
		sock.setStopFlag(&c.out.stopped)
	}
	c.in.nc, c.in.sock, c.in.pool = nc, sock, options.Buffers
	c.in.mux, _ = nc.(MuxStream)
	c.in.initialSize = options.ReadBuffer
	c.in.closeWriteAfterIdle = options.CloseWriteAfterIdle
	c.headers.in, c.headers.onMemoryChange = &c.in, options.OnHeaderMemory
	c.out.nc, c.out.sock, c.out.pool = nc, sock, options.Buffers
	c.SetLimits(options.MaxHeaderBytes, options.MaxTargetBytes, options.MaxHeaderLines)
	c.SetTimeouts(options.Timeouts)
}

// Clear resets c after its connection has ended, and keeps memory for Reset. c must not be used
// before Reset.
func (c *Conn) Clear() {
	if c.spareSocket != nil {
		c.spareSocket.clear()
	}
	// The method values refer to fields of c, so they stay valid.
	*c = Conn{
		spareSocket: c.spareSocket,
		watch:       watch{checkFunc: c.watch.checkFunc},
		alive:       liveness{checkFunc: c.alive.checkFunc},
	}
}

// NetConn returns the underlying connection, for its addresses. Only a tunnel that has consumed
// Buffered may read or write it directly.
func (c *Conn) NetConn() net.Conn { return c.nc }

// SetTimeouts replaces the timeouts; the next wait uses the new ones. It must not be called during
// a read or a write.
func (c *Conn) SetTimeouts(t Timeouts) {
	c.timeouts = t
	c.headers.timeout = t.Header
	c.in.bodyTimeout, c.in.minRate, c.in.rateGrace = t.Body, t.MinRate, t.RateGrace
	c.out.timeout = t.Write
}

// Timeouts returns the current timeouts.
func (c *Conn) Timeouts() Timeouts { return c.timeouts }

// Buffered returns the bytes that were read from the socket and have not been consumed. They are
// valid until the next read.
func (c *Conn) Buffered() []byte { return c.in.unread() }

// Received returns the number of bytes read from the socket so far.
func (c *Conn) Received() int64 { return c.in.received }

// Sent returns the number of bytes that the socket has accepted so far. If it does not change
// during an attempt, no byte of the attempt left this process, so the request can be retried
// safely.
func (c *Conn) Sent() int64 { return c.out.sent }

// WaitReadable waits up to the timeout until a read would not block. Zero means no limit. It
// returns true if a read would not block, false after the timeout, and io.EOF at the end of the
// stream. A short WaitReadable is cheaper than WatchDisconnect, which needs a goroutine.
func (c *Conn) WaitReadable(timeout time.Duration) (bool, error) {
	return c.in.waitForData(timeout)
}

// Writer returns the writing half.
func (c *Conn) Writer() *Writer { return &c.out }

// Flush sends what the writing half has buffered, and blocks until the socket has accepted it.
func (c *Conn) Flush() error { return c.out.Flush() }

// InitRestBody sets b to a body that contains the rest of the connection: the buffered bytes, and
// all data until the peer closes its sending side. It is used for tunnels.
func (c *Conn) InitRestBody(b *Body) *Body {
	b.start(&c.in, nil, UntilClose, 0)
	return b
}

// ReleaseEmptyBuffers returns the buffers that contain no unread or unsent bytes to the pool. Call
// it between two messages. The next message borrows buffers again.
func (c *Conn) ReleaseEmptyBuffers() {
	c.in.releaseEmptyBuffer()
	c.out.releaseEmptyBuffer()
}

// BufferSize returns the size in bytes of the buffers that the Conn currently holds.
func (c *Conn) BufferSize() int { return len(c.in.buf) + len(c.out.buf) }

// ReleaseBuffers discards all buffered bytes and returns the buffers to the pool. It must be called
// last, after Close, by the goroutine that used the Conn.
func (c *Conn) ReleaseBuffers() {
	c.in.readPos, c.in.writePos = 0, 0
	c.in.releaseEmptyBuffer()
	c.out.buffered = 0
	c.out.releaseEmptyBuffer()
}

// Close closes the connection, so that reads and writes in progress fail. Any goroutine may call
// it, more than once. If the aborted response is delimited by the end of the connection, Close
// sends a TCP reset, because the response would look complete after a FIN.
func (c *Conn) Close() error {
	if c.closed.Swap(true) {
		return nil
	}
	defer c.wakeup.call()
	defer c.in.onReadable() // wakes a parked reader, which finds the connection closed
	if c.out.resetOnClose.Load() {
		return resetConn(c.nc)
	}
	return c.nc.Close()
}

// StopWaiting makes current and future waits for the first byte of a request return ErrStopped. A
// request that has partly arrived is still read. Any goroutine may call StopWaiting. It cannot be
// undone.
func (c *Conn) StopWaiting() {
	defer c.wakeup.call()
	in := &c.in
	in.mu.Lock()
	defer in.mu.Unlock()
	in.mu.stopWaiting = true
	if in.mu.waiting {
		_ = in.nc.SetReadDeadline(past()) // an error does not matter, because a closed connection does not wait
	}
}

// WaitingStopped reports whether StopWaiting has been called.
func (c *Conn) WaitingStopped() bool {
	in := &c.in
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.mu.stopWaiting
}

// RequestPark ends a wait for the first byte of a request with ErrParkRequested, unless data has
// arrived. It affects neither later waits nor a connection on which no goroutine waits. Any
// goroutine may call it.
func (c *Conn) RequestPark() {
	in := &c.in
	in.mu.Lock()
	defer in.mu.Unlock()
	alreadyInterrupted := in.mu.stopWaiting || in.mu.parkRequested
	if in.mu.waiting && !alreadyInterrupted {
		in.mu.parkRequested = true
		_ = in.nc.SetReadDeadline(past()) // as in StopWaiting
	}
}

// StopRead makes current and future reads return ErrStopped, so that another goroutine stops
// copying a body. After StopRead, only CloseLinger reads from the connection. Any goroutine may
// call it.
func (c *Conn) StopRead() {
	defer c.wakeup.call()
	in := &c.in
	in.mu.Lock()
	defer in.mu.Unlock()
	in.mu.stopRead = true
	_ = in.nc.SetReadDeadline(past()) // an error does not matter, because reads from a closed connection fail
	in.unpark()
}

// StopWrite makes current and future writes to the socket fail with os.ErrDeadlineExceeded. It
// stops a goroutine from sending a body that the receiver does not accept. Reads are not affected.
// Any goroutine may call StopWrite. It cannot be undone.
func (c *Conn) StopWrite() {
	c.out.stopped.Store(true)
	_ = c.nc.SetWriteDeadline(past()) // an error does not matter, because writes to a closed connection fail
}

// WriteStopped reports whether StopWrite was called. If so, the connection cannot send another
// message.
func (c *Conn) WriteStopped() bool { return c.out.stopped.Load() }
