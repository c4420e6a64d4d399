package h1

import (
	"net"
	"sync/atomic"
	"time"
)

// Conn is one connection that carries HTTP/1 messages, at either end. It borrows its buffers when
// there is data to read or write, and returns them in Idle and Release.
type Conn struct {
	nc       net.Conn
	o        Options
	in       connReader
	out      Writer
	watch    watch
	alive    liveness
	timeouts Timeouts
	partial  int // bytes of the present header that were reported to Options.Partial
	closed   atomic.Bool
	wakeup   atomic.Pointer[func()] // set by SetWakeup
	spare    *socket                // memory of in.sock, kept by Clear; nil means none
}

// NewConn returns a Conn over nc. If possible, nc should be the *net.TCPConn or *net.UnixConn
// itself and not a wrapper: see Options.Direct.
func NewConn(nc net.Conn, o Options) *Conn {
	c := &Conn{}
	c.Reset(nc, o)
	return c
}

// Reset makes c a Conn over nc, like NewConn, and reuses the memory of a connection that has ended.
// That connection must have been released, and no goroutine may still close or inspect it.
func (c *Conn) Reset(nc net.Conn, o Options) {
	c.Clear()
	c.nc, c.o = nc, o.withDefaults()
	sock := newSocket(c.spare, nc, &c.o)
	if sock != nil {
		c.spare = sock
		sock.setStopFlag(&c.out.stopped)
	}
	c.in.nc, c.in.sock, c.in.pool = nc, sock, c.o.Buffers
	c.in.mux, _ = nc.(MuxStream)
	c.in.size, c.in.max = c.o.ReadBuffer, max(c.o.MaxHeaderBytes, c.o.ReadBuffer)
	c.in.endIdle = c.o.EndIdle
	c.out.nc, c.out.sock, c.out.pool = nc, c.in.sock, c.o.Buffers
	c.SetTimeouts(o.Timeouts)
}

// Clear drops a connection that has ended, and keeps the memory of c for Reset. c must not be used
// before Reset.
func (c *Conn) Clear() {
	if c.spare != nil {
		c.spare.clear()
	}
	*c = Conn{spare: c.spare, watch: watch{checkFunc: c.watch.checkFunc}, alive: liveness{checkFunc: c.alive.checkFunc}}
}

// NetConn returns the underlying connection, for its addresses. Only tunnels that have taken
// Buffered first may read or write it directly.
func (c *Conn) NetConn() net.Conn { return c.nc }

// SetTimeouts replaces the timeouts, beginning with the next wait. It must not be called while the
// Conn is being read or written.
func (c *Conn) SetTimeouts(t Timeouts) {
	c.timeouts = t
	c.in.body, c.in.rate, c.in.patience = t.Body, t.Rate, t.Patience
	c.out.timeout = t.Write
}

// Timeouts returns the present timeouts.
func (c *Conn) Timeouts() Timeouts { return c.timeouts }

// Buffered returns the bytes that have been read from the socket and not been taken. They are valid
// until the next read.
func (c *Conn) Buffered() []byte { return c.in.unread() }

// Received returns the number of bytes read from the socket so far.
func (c *Conn) Received() int64 { return c.in.received }

// Sent returns the number of bytes that the socket has accepted so far. If it is the same before
// and after an attempt, no byte of the attempt has left this process.
func (c *Conn) Sent() int64 { return c.out.sent }

// Wait waits up to d until a read would not block, and reports whether that is the case. Zero means
// no limit. At the end of the stream it returns io.EOF. A short Wait is cheaper than
// WatchDisconnect, which needs a goroutine.
func (c *Conn) Wait(d time.Duration) (bool, error) {
	return c.in.await(d)
}

// Writer returns the writing half.
func (c *Conn) Writer() *Writer { return &c.out }

// Flush sends what the writing half has buffered.
func (c *Conn) Flush() error { return c.out.Flush() }

// Rest makes b the rest of the connection, for tunnels: the buffered bytes, and everything until
// the peer closes its side.
func (c *Conn) Rest(b *Body) *Body {
	b.start(&c.in, nil, UntilClose, 0)
	return b
}

// Idle returns the buffers that contain no unread or unsent bytes. Call it between two messages;
// the next message borrows buffers again.
func (c *Conn) Idle() {
	c.in.release()
	c.out.release()
}

// BufferSize returns the size in bytes of the buffers that the Conn has at the moment.
func (c *Conn) BufferSize() int { return len(c.in.buf) + len(c.out.buf) }

// Release returns the buffers and drops their content. It must be the last call, after Close, by
// the goroutine that used the Conn.
func (c *Conn) Release() {
	c.in.r, c.in.w = 0, 0
	c.in.release()
	c.out.n = 0
	c.out.release()
}

// Close closes the connection: reads and writes in progress fail. Any goroutine may call it, more
// than once. A response that is delimited by the end of the connection and was aborted ends with a
// TCP reset, so that it does not look complete.
func (c *Conn) Close() error {
	if c.closed.Swap(true) {
		return nil
	}
	defer c.wakeOwner()
	defer c.in.ready() // wakes a parked reader, which finds the connection closed
	if c.out.reset.Load() {
		return reset(c.nc)
	}
	return c.nc.Close()
}

// StopIdle makes a present or later wait for the first byte of a request return ErrStopped. A
// request of which a part has arrived is still read. Any goroutine may call it. It cannot be
// undone.
func (c *Conn) StopIdle() {
	defer c.wakeOwner()
	in := &c.in
	in.mu.Lock()
	defer in.mu.Unlock()
	in.mu.stopIdle = true
	if in.mu.waiting {
		_ = in.nc.SetReadDeadline(past()) // a closed connection waits for nothing
	}
}

// Stopped reports whether StopIdle has been called.
func (c *Conn) Stopped() bool {
	in := &c.in
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.mu.stopIdle
}

// RequestPark makes a present wait for the first byte of a request return ErrParkRequested, if no
// data has arrived. Any goroutine may call it. It does not affect the next wait.
func (c *Conn) RequestPark() {
	in := &c.in
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.mu.waiting && !in.mu.stopIdle && !in.mu.parkRequested {
		in.mu.parkRequested = true
		_ = in.nc.SetReadDeadline(past()) // as in StopIdle
	}
}

// StopRead makes present and later reads return ErrStopped. It ends the copying of a body by
// another goroutine. Any goroutine may call it. After it, only CloseLinger reads.
func (c *Conn) StopRead() {
	defer c.wakeOwner()
	in := &c.in
	in.mu.Lock()
	defer in.mu.Unlock()
	in.mu.stopRead = true
	_ = in.nc.SetReadDeadline(past()) // a closed connection reads nothing
	in.unpark()
}

// StopWrite makes present and later writes to the socket fail with os.ErrDeadlineExceeded. Reading
// continues. It ends the sending of a body by another goroutine if the receiver does not accept it.
// Any goroutine may call it. It cannot be undone.
func (c *Conn) StopWrite() {
	c.out.stopped.Store(true)
	_ = c.nc.SetWriteDeadline(past()) // a closed connection writes nothing
}

// WriteStopped reports whether StopWrite was called, so that the connection cannot send another
// message.
func (c *Conn) WriteStopped() bool { return c.out.stopped.Load() }
