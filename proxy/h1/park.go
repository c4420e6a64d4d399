package h1

import (
	"errors"
	"net"
	"time"
)

// ErrReady reports that a read would not block, so that the connection cannot be parked.
var ErrReady = errors.New("h1: data is available")

// Watcher watches sockets from which no goroutine reads.
type Watcher interface {
	// Watch arranges for onReadable to be called once, from another goroutine, when data, the end
	// of the stream or an error arrives on conn. The caller must call unwatch to end the watch,
	// even if conn has been closed. onReadable may still be called after unwatch.
	Watch(conn net.Conn, onReadable func()) (unwatch func(), err error)
}

// CanPark reports whether Park may succeed.
func (c *Conn) CanPark() bool { return c.in.mux != nil || c.in.sock != nil }

// Park registers wake, so that the reading goroutine can exit while the peer sends nothing. This
// saves a goroutine for each idle connection.
//
// wake is called once, when a read would not block, or when Close, Abort, PauseRead or StopRead
// interrupts reading. wake must not block; it must start another goroutine that reads. No goroutine
// may read before wake is called.
//
// After an error, wake is not called. ErrReady means that a read would not block now. Any other
// error means that the connection cannot be parked.
func (c *Conn) Park(w Watcher, wake func()) error {
	in := &c.in
	if in.buffered() > 0 || in.setReadDeadline(time.Time{}) != nil {
		return ErrReady
	}
	if in.mux != nil {
		if !in.mux.NotifyReadable(wake) {
			return ErrReady
		}
		return nil
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.mu.paused || in.mu.stopRead || c.closed.Load() {
		return ErrReady
	}
	unwatch, err := w.Watch(c.nc, in.onReadable)
	if err == nil {
		in.mu.wake, in.mu.unwatch = wake, unwatch
	}
	return err
}

// onReadable is called by the Watcher when a read would not block.
func (in *connReader) onReadable() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.unpark()
}

// unpark calls the wake function of a parked reader, if there is one. The caller must hold mu.
func (in *connReader) unpark() {
	if wake := in.mu.wake; wake != nil {
		in.mu.unwatch()
		in.mu.wake, in.mu.unwatch = nil, nil
		wake()
	}
}
