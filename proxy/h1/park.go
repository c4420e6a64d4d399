package h1

import (
	"errors"
	"net"
	"time"
)

// ErrReady reports that a read would not wait.
var ErrReady = errors.New("h1: there is something to read")

// Watcher watches sockets that nobody reads.
type Watcher interface {
	// Watch has ready called, once and from a goroutine of its own, as soon as there is
	// something to read from conn, an end or an error. Leave ends that, also once conn has been
	// closed; ready may be called all the same.
	Watch(conn net.Conn, ready func()) (leave func(), err error)
}

// Parks reports whether Park may succeed.
func (c *Conn) Parks() bool { return c.in.mux != nil || c.in.sock != nil }

// Park lets the goroutine that reads go, which waits for the peer to say something: wake is
// called once, as soon as a read would not wait, or Close, Cut, PauseRead or StopRead ends one.
// It must not wait, and has another goroutine read; until then nobody does. An error means that
// wake is not called: ErrReady that there is something to read already, any other that the
// connection cannot be parked.
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

// ready is told that there is something to read.
func (in *connReader) ready() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.unpark()
}

// unpark wakes who has parked. With mu held.
func (in *connReader) unpark() {
	if wake := in.mu.wake; wake != nil {
		in.mu.leave()
		in.mu.wake, in.mu.leave = nil, nil
		wake()
	}
}
