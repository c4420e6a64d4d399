package h1

import (
	"errors"
	"net"
	"os"
	"syscall"
	"time"
)

// watch looks out for the peer's leaving while nobody reads.
type watch struct {
	raw       syscall.RawConn
	checkFunc func(fd uintptr) bool // w.look, bound once
	gone      bool                  // gone
	done      chan struct{}         // closed when the goroutine has ended; nil: none runs
	stop      func() bool           // of a lane that is watched
}

func (w *watch) check(fd uintptr) bool {
	w.gone = peerGone(fd)
	return w.gone
}

// rawConn returns the socket below c, under whatever wraps it; nil without one.
func (c *Conn) rawConn() syscall.RawConn {
	if c.watch.raw == nil && c.in.sock != nil {
		c.watch.raw = c.in.sock.raw
	}
	if c.watch.raw != nil {
		return c.watch.raw
	}
	if c.in.mux != nil {
		return nil
	}
	for nc := c.nc; nc != nil; nc = unwrap(nc) {
		if sc, ok := nc.(syscall.Conn); ok {
			if raw, err := sc.SyscallConn(); err == nil {
				c.watch.raw = raw
				break
			}
		}
	}
	return c.watch.raw
}

// below returns the connection that nc wraps, nil if it wraps none: tls.Conn
// tells it, and so do those made in its likeness.
func unwrap(nc net.Conn) net.Conn {
	if w, ok := nc.(interface{ NetConn() net.Conn }); ok {
		return w.NetConn()
	}
	return nil
}

// Visible reports whether there is a socket below the connection, so that
// WatchDisconnect and Alive see what becomes of it.
func (c *Conn) HasSocket() bool { return c.in.mux != nil || c.rawConn() != nil }

// WatchDisconnect calls gone, once and from another goroutine, when the peer has
// closed its side or the connection breaks, until StopWatch. Nothing is
// consumed: it sees a FIN behind bytes that nobody has read (on Linux). It
// occupies the reading half, so nobody may read before StopWatch; gone must
// not call it, and must not block. Connections without a socket of their own
// are not watched.
//
// It costs a goroutine: look with Wait at the other side for a few
// milliseconds first.
func (c *Conn) WatchDisconnect(gone func()) {
	w := &c.watch
	if c.in.mux != nil && w.done == nil {
		w.watchMux(c.in.mux, gone)
		return
	}
	raw := c.rawConn()
	if raw == nil || w.done != nil || c.in.setDeadline(time.Time{}) != nil {
		return
	}
	if w.checkFunc == nil {
		w.checkFunc = w.check
	}
	w.gone = false
	done := make(chan struct{})
	w.done = done
	go func() {
		defer close(done)
		err := raw.Read(w.checkFunc)
		// The deadline ends the watch, by StopWatch or StopRead. Any other error
		// is a connection that was closed at this end.
		if w.gone || err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			gone()
		}
	}()
}

// StopWatch ends the watch and returns once it has ended; gone will not be
// called after that. It reports whether the peer was seen to have left.
func (c *Conn) StopWatch() bool {
	w := &c.watch
	if w.done == nil {
		return false
	}
	if w.stop != nil {
		return w.stopMux()
	}
	_ = c.in.setDeadline(past()) // a closed connection is not waited for
	<-w.done
	w.done = nil
	_ = c.in.setDeadline(time.Time{}) // the next reader sees the error
	return w.gone
}

// Alive reports whether an idle connection still looks usable: nothing to
// read, no end, no error. Bytes that nobody asked for make it unusable too:
// they would be taken for the next answer. Without a socket to look at, it
// knows only what is buffered.
//
// Under TLS the socket tells of an end and of bytes, whatever they mean; what
// has been taken from it already and not been asked for is looked for too.
func (c *Conn) Alive() bool {
	if c.closed.Load() || c.in.buffered() > 0 || c.out.err != nil {
		return false
	}
	if c.in.mux != nil {
		return c.in.mux.Quiet()
	}
	raw := c.rawConn()
	if raw == nil {
		return true
	}
	if c.alive.checkFunc == nil {
		c.alive.checkFunc = c.alive.check
	}
	return raw.Control(c.alive.checkFunc) == nil && c.alive.quiet && (c.in.sock != nil || !c.readAhead())
}

// readAhead reports whether something between the socket and this Conn has read
// bytes that nobody asked for: whatever comes though nobody waits. A deadline
// that has passed keeps the read from the socket; TLS bears that.
func (c *Conn) readAhead() bool {
	in := &c.in
	if in.setDeadline(past()) != nil {
		return true
	}
	n, err := in.nc.Read(in.few[:1])
	_ = in.setDeadline(time.Time{}) // the next reader sees the error
	return n > 0 || !errors.Is(err, os.ErrDeadlineExceeded)
}

// liveness looks at a socket once.
type liveness struct {
	checkFunc func(fd uintptr) // l.look, bound once
	quiet     bool
}

func (l *liveness) check(fd uintptr) { l.quiet = quiet(fd) }
