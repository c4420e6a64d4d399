package h1

import (
	"errors"
	"net"
	"os"
	"syscall"
	"time"
)

// watch detects that the peer disconnects while no goroutine reads.
type watch struct {
	checkFunc func(fd uintptr) bool // w.check, created once
	isGone    bool                  // the peer has disconnected
	done      chan struct{}         // closed when the goroutine has ended; nil means that none runs
	stopFunc  func() bool           // ends the watch of a multiplexed stream
}

// check is the function of raw.Read: it returns false to wait for the next event of the socket.
func (w *watch) check(fd uintptr) bool {
	w.isGone = peerGone(fd)
	return w.isGone
}

// rawConn returns the socket below the connection, even if the connection is wrapped. It returns nil
// if there is none.
func (in *connReader) rawConn() syscall.RawConn {
	if in.raw == nil && in.sock != nil {
		in.raw = in.sock.raw
	}
	if in.raw != nil {
		return in.raw
	}
	if in.mux != nil {
		return nil
	}
	for nc := in.nc; nc != nil; nc = unwrap(nc) {
		if socketConn, ok := nc.(syscall.Conn); ok {
			if raw, err := socketConn.SyscallConn(); err == nil {
				in.raw = raw
				break
			}
		}
	}
	return in.raw
}

// unwrap returns the connection that nc wraps, or nil. tls.Conn has the NetConn method for that,
// and so have similar wrappers.
func unwrap(nc net.Conn) net.Conn {
	if wrapper, ok := nc.(interface{ NetConn() net.Conn }); ok {
		return wrapper.NetConn()
	}
	return nil
}

// HasSocket reports whether there is a socket below the connection, so that WatchDisconnect and
// IsAlive can observe it.
func (c *Conn) HasSocket() bool { return c.in.mux != nil || c.in.rawConn() != nil }

// WatchDisconnect calls gone once, from another goroutine, if the peer closes its side or the
// connection breaks. The watch ends with StopWatch. It consumes no data. On Linux it also detects a
// FIN that follows unread bytes. No goroutine may read before StopWatch. gone must not call
// StopWatch, and must not block. A connection without a socket is not watched.
//
// A watch needs a goroutine, so callers should first wait a few milliseconds for the other side's
// response with WaitReadable.
func (c *Conn) WatchDisconnect(gone func()) {
	w := &c.watch
	if c.in.mux != nil && w.done == nil {
		w.watchMux(c.in.mux, gone)
		return
	}
	raw := c.in.rawConn()
	alreadyWatches := w.done != nil
	if raw == nil || alreadyWatches || c.in.setReadDeadline(time.Time{}) != nil {
		return
	}
	if w.checkFunc == nil {
		w.checkFunc = w.check
	}
	w.isGone = false
	done := make(chan struct{})
	w.done = done
	go func() {
		defer close(done)
		err := raw.Read(w.checkFunc)
		// StopWatch and StopRead end the watch with a deadline. Any other error means that this
		// process closed the connection.
		closedHere := err != nil && !errors.Is(err, os.ErrDeadlineExceeded)
		if w.isGone || closedHere {
			gone()
		}
	}()
}

// StopWatch ends the watch and waits until it has ended. gone is not called after that. StopWatch
// reports whether the peer has disconnected.
func (c *Conn) StopWatch() bool {
	w := &c.watch
	if w.done == nil {
		return false
	}
	if w.stopFunc != nil {
		return w.stopMux()
	}
	_ = c.in.setReadDeadline(past()) // fails for a closed connection, whose watch has already ended
	<-w.done
	w.done = nil
	_ = c.in.setReadDeadline(time.Time{}) // after an error, the next read fails
	return w.isGone
}

// IsAlive reports whether an idle connection still looks usable: no data, no end of the stream and
// no error has arrived. Unexpected data makes the connection unusable, because it would be parsed
// as the next response. Without a socket, IsAlive checks only the buffer.
//
// With TLS, any bytes on the socket count as data. IsAlive also checks for data that the TLS layer
// has read from the socket but this Conn has not.
func (c *Conn) IsAlive() bool {
	if c.closed.Load() || c.in.buffered() > 0 || c.out.err != nil {
		return false
	}
	if c.in.mux != nil {
		return c.in.mux.WouldBlock()
	}
	raw := c.in.rawConn()
	if raw == nil {
		return true
	}
	if c.alive.checkFunc == nil {
		c.alive.checkFunc = c.alive.check
	}
	if raw.Control(c.alive.checkFunc) != nil || !c.alive.wouldBlock {
		return false
	}
	return c.in.sock != nil || !c.in.hasReadAhead()
}

// hasReadAhead reports whether a layer between the socket and the connReader has buffered unexpected
// data. It reads with a deadline in the past, so that nothing is read from the socket; crypto/tls
// permits that.
func (in *connReader) hasReadAhead() bool {
	if in.setReadDeadline(past()) != nil {
		return true
	}
	n, err := in.nc.Read(in.smallBuf[:1])
	_ = in.setReadDeadline(time.Time{}) // after an error, the next read fails
	return n > 0 || !errors.Is(err, os.ErrDeadlineExceeded)
}

// liveness checks a socket once.
type liveness struct {
	checkFunc  func(fd uintptr) // l.check, created once
	wouldBlock bool             // result of the last check: there is nothing to read
}

// check is the function of raw.Control.
func (l *liveness) check(fd uintptr) { l.wouldBlock = readWouldBlock(fd) }
