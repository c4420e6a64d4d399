package h1

import (
	"net"
	"syscall"
)

// MuxStream is a connection that shares a socket with others. What a socket would be asked for
// it tells itself; only the path is the socket's.
type MuxStream interface {
	net.Conn
	// Await waits until Read returns at once.
	Await() error
	// Quiet reports whether there is nothing to read, no end and no error.
	Quiet() bool
	// WatchGone calls gone, once and from a goroutine of its own, when the other end has
	// said its end or the lane breaks. The function it returns ends that, and reports
	// whether gone has not been called and will not be.
	WatchGone(gone func()) (stop func() bool)
	// Ready has wake called, once, as soon as Read would return at once, also for a deadline
	// or because the lane was closed; false: it would now. Wake must not wait, nor use the lane.
	Ready(wake func()) bool
	// Path gives access to the shared socket; nil without one.
	Path() syscall.RawConn
}

// watchMux is WatchGone of a lane.
func (w *watch) watchMux(l MuxStream, gone func()) {
	w.peer = false
	done := make(chan struct{})
	w.done = done
	w.stop = l.WatchGone(func() {
		defer close(done)
		w.peer = true
		gone()
	})
}

// stopMux is StopWatch of a lane.
func (w *watch) stopMux() bool {
	if !w.stop() {
		<-w.done
	}
	w.done, w.stop = nil, nil
	return w.peer
}
