package h1

import (
	"errors"
	"net"
	"time"
)

// ErrReady reports that a read would not block, so that the connection cannot be parked.
var ErrReady = errors.New("h1: there is something to read")

// Watcher watches sockets from which no goroutine reads.
type Watcher interface {
	// Watch arranges that ready is called once, from another goroutine, when data, the end of the
	// stream or an error arrives on conn. The caller must call leave to end the watch, even if conn
	// has been closed. ready may still be called after leave.
	Watch(conn net.Conn, ready func()) (leave func(), err error)
}

// Parks reports whether Park may succeed.
func (c *Conn) Parks() bool { return c.in.mux != nil || c.in.sock != nil }

// Park registers wake, so that the reading goroutine can exit while the peer sends nothing. wake is
// called once, when a read would not block, or when Close, Abort, PauseRead or StopRead interrupts
// reading. wake must not block; it must start another goroutine that reads. Until then no goroutine
// may read. After an error, wake is not called. ErrReady means that a read would not block now. Any
// other error means that the connection cannot be parked.
func (c *Conn) Park(w Watcher, wake func()) error {
	in := &c.in
	if in.buffered() > 0 || in.setDeadline(time.Time{}) != nil {
		return ErrReady
	}
	if in.mux != nil {
		if !in.mux.Ready(wake) {
			return ErrReady
		}
		return nil
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.mu.paused || in.mu.stopRead || c.closed.Load() {
		return ErrReady
	}
	leave, err := w.Watch(c.nc, in.ready)
	if err == nil {
		in.mu.wake, in.mu.leave = wake, leave
	}
	return err
}

// ready is called by the Watcher when a read would not block.
func (in *connReader) ready() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.unpark()
}

// unpark calls the wake function of a parked reader, if there is one. The caller must hold mu.
func (in *connReader) unpark() {
	if wake := in.mu.wake; wake != nil {
		in.mu.leave()
		in.mu.wake, in.mu.leave = nil, nil
		wake()
	}
}
