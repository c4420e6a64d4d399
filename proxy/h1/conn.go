package h1

import (
	"net"
	"sync/atomic"
	"time"
)

// Conn is one connection that carries HTTP/1 messages, seen from either end.
// Its buffers are borrowed when there is something to read or write and given
// back by Idle and Release.
type Conn struct {
	nc       net.Conn
	o        Options
	in       connReader
	out      Writer
	watch    watch
	alive    liveness
	timeouts Timeouts
	partial  int // bytes that Options.Partial was told of the present head
	closed   atomic.Bool
	wakeup   atomic.Pointer[func()] // set by SetWakeup
	spare    *socket                // the memory of in.sock, kept by Forget; nil: there was none
}

// NewConn returns a Conn over nc. Give it the *net.TCPConn or *net.UnixConn
// itself where there is one, not a wrapper: see Options.Direct.
func NewConn(nc net.Conn, o Options) *Conn {
	c := &Conn{}
	c.Reset(nc, o)
	return c
}

// Reset makes c a Conn over nc, as NewConn does, in the memory of one that is over: it has
// been released, and nobody has it any more who could close it or look at it.
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

// Forget lets go of a connection that is over, and keeps c's memory for Reset. Until then c
// is of no use.
func (c *Conn) Clear() {
	if c.spare != nil {
		c.spare.clear()
	}
	*c = Conn{spare: c.spare, watch: watch{checkFunc: c.watch.checkFunc}, alive: liveness{checkFunc: c.alive.checkFunc}}
}

// NetConn returns the connection below, for its addresses. Reading or writing
// it directly is for tunnels that have taken Buffered first.
func (c *Conn) NetConn() net.Conn { return c.nc }

// SetTimeouts replaces the timeouts, from the next wait on. Not while the Conn
// is being read or written.
func (c *Conn) SetTimeouts(t Timeouts) {
	c.timeouts = t
	c.in.body, c.in.rate, c.in.patience = t.Body, t.Rate, t.Patience
	c.out.timeout = t.Write
}

// Timeouts returns the timeouts in force.
func (c *Conn) Timeouts() Timeouts { return c.timeouts }

// Buffered returns what has been read and not been taken. It is valid until
// the next read.
func (c *Conn) Buffered() []byte { return c.in.unread() }

// Received returns the number of bytes read from the socket so far.
func (c *Conn) Received() int64 { return c.in.received }

// Sent returns the number of bytes the socket has taken so far. Equal before
// and after an attempt means that not one byte of it left this process.
func (c *Conn) Sent() int64 { return c.out.sent }

// Wait waits up to d (zero: for ever) until something can be read without
// waiting, and reports whether it can. It is how to look at a connection for a
// moment before going to the expense of WatchDisconnect elsewhere. At the end of the
// stream it returns io.EOF.
func (c *Conn) Wait(d time.Duration) (bool, error) {
	return c.in.await(d)
}

// Writer returns the writing half.
func (c *Conn) Writer() *Writer { return &c.out }

// Flush sends what the writing half has buffered.
func (c *Conn) Flush() error { return c.out.Flush() }

// Rest returns b as what is left of the connection, for tunnels: what is
// buffered and all that comes until the peer closes its side.
func (c *Conn) Rest(b *Body) *Body {
	b.start(&c.in, nil, UntilClose, 0)
	return b
}

// Idle gives the buffers back. Unread and unsent bytes keep theirs. Call it
// between two messages: the next one borrows anew.
func (c *Conn) Idle() {
	c.in.release()
	c.out.release()
}

// Kept returns the size of the buffers that the Conn has at the moment.
func (c *Conn) BufferSize() int { return len(c.in.buf) + len(c.out.buf) }

// Release gives the buffers back with whatever they hold. It comes last, after
// Close, from the goroutine that used the Conn.
func (c *Conn) Release() {
	c.in.r, c.in.w = 0, 0
	c.in.release()
	c.out.n = 0
	c.out.release()
}

// Close closes the connection: running reads and writes fail. Any goroutine
// may call it, more than once. An answer that runs until close and was aborted
// is cut by a reset, where there is one, so that it does not look whole.
func (c *Conn) Close() error {
	if c.closed.Swap(true) {
		return nil
	}
	defer c.wakeOwner()
	defer c.in.ready() // who is parked finds it closed
	if c.out.reset.Load() {
		return reset(c.nc)
	}
	return c.nc.Close()
}

// StopIdle makes a running or later wait for the first byte of a request
// return ErrStopped, unless a request has begun to come in: that one is read.
// Any goroutine may call it. It cannot be undone.
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

// RequestPark makes a running wait for the first byte of a request return ErrParkRequested, if nothing
// has come in. Any goroutine may call it. The next wait goes on as if nothing had been.
func (c *Conn) RequestPark() {
	in := &c.in
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.mu.waiting && !in.mu.stopIdle && !in.mu.parkRequested {
		in.mu.parkRequested = true
		_ = in.nc.SetReadDeadline(past()) // as in StopIdle
	}
}

// StopRead makes running and later reads return ErrStopped, to end a body that
// another goroutine copies and nobody wants any more. Any goroutine may call
// it. Only CloseLinger reads after it.
func (c *Conn) StopRead() {
	defer c.wakeOwner()
	in := &c.in
	in.mu.Lock()
	defer in.mu.Unlock()
	in.mu.stopRead = true
	_ = in.nc.SetReadDeadline(past()) // a closed connection reads nothing
	in.unpark()
}

// StopWrite makes running and later writes to the socket fail with os.ErrDeadlineExceeded; reading
// goes on. It ends an upload that another goroutine writes and that the receiver does not take. Any
// goroutine may call it. It cannot be undone.
func (c *Conn) StopWrite() {
	c.out.stopped.Store(true)
	_ = c.nc.SetWriteDeadline(past()) // a closed connection writes nothing
}

// WriteStopped reports whether StopWrite was called: the connection cannot send another message.
func (c *Conn) WriteStopped() bool { return c.out.stopped.Load() }
