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
	raw  syscall.RawConn
	step func(fd uintptr) bool // w.look, bound once
	peer bool                  // gone
	done chan struct{}         // closed when the goroutine has ended; nil: none runs
	stop func() bool           // of a lane that is watched
}

func (w *watch) look(fd uintptr) bool {
	w.peer = peerGone(fd)
	return w.peer
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
	for nc := c.nc; nc != nil; nc = below(nc) {
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
func below(nc net.Conn) net.Conn {
	if w, ok := nc.(interface{ NetConn() net.Conn }); ok {
		return w.NetConn()
	}
	return nil
}

// Visible reports whether there is a socket below the connection, so that
// WatchGone and Alive see what becomes of it.
func (c *Conn) Visible() bool { return c.in.mux != nil || c.rawConn() != nil }

// WatchGone calls gone, once and from another goroutine, when the peer has
// closed its side or the connection breaks, until StopWatch. Nothing is
// consumed: it sees a FIN behind bytes that nobody has read (on Linux). It
// occupies the reading half, so nobody may read before StopWatch; gone must
// not call it, and must not block. Connections without a socket of their own
// are not watched.
//
// It costs a goroutine: look with Wait at the other side for a few
// milliseconds first.
func (c *Conn) WatchGone(gone func()) {
	w := &c.watch
	if c.in.mux != nil && w.done == nil {
		w.watchMux(c.in.mux, gone)
		return
	}
	raw := c.rawConn()
	if raw == nil || w.done != nil || c.in.setDeadline(time.Time{}) != nil {
		return
	}
	if w.step == nil {
		w.step = w.look
	}
	w.peer = false
	done := make(chan struct{})
	w.done = done
	go func() {
		defer close(done)
		err := raw.Read(w.step)
		// The deadline ends the watch, by StopWatch or StopRead. Any other error
		// is a connection that was closed at this end.
		if w.peer || err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
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
	return w.peer
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
	if c.alive.step == nil {
		c.alive.step = c.alive.look
	}
	return raw.Control(c.alive.step) == nil && c.alive.quiet && (c.in.sock != nil || !c.readAhead())
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
	step  func(fd uintptr) // l.look, bound once
	quiet bool
}

func (l *liveness) look(fd uintptr) { l.quiet = quiet(fd) }
