package h1

import (
	"net"
	"syscall"
)

// MuxStream is a net.Conn that is one stream of a multiplexed session. Many streams share the
// socket of the session, so that Conn asks the stream itself for what it would otherwise ask
// the socket. Only the state of the network path is asked from the socket.
type MuxStream interface {
	net.Conn
	// Await blocks until Read returns without blocking.
	Await() error
	// Quiet reports whether there is nothing to read: no data, no end of stream and no error.
	Quiet() bool
	// WatchDisconnect calls gone once, from another goroutine, when the peer has closed its sending
	// side or the stream breaks. The returned function ends the watch. It reports true if gone
	// has not been called and will not be called.
	WatchGone(gone func()) (stop func() bool)
	// Ready arranges that wake is called once, as soon as Read returns without blocking, which
	// includes a deadline and a closed stream. It returns false, and does not call wake, if Read
	// returns without blocking now. wake must not block, and must not use the stream.
	Ready(wake func()) bool
	// Path gives access to the shared socket, or nil if there is none.
	Path() syscall.RawConn
}

// watchMux implements Conn.WatchDisconnect for a stream of a multiplexed session.
func (w *watch) watchMux(l MuxStream, gone func()) {
	w.gone = false
	done := make(chan struct{})
	w.done = done
	w.stop = l.WatchGone(func() {
		defer close(done)
		w.gone = true
		gone()
	})
}

// stopMux implements Conn.StopWatch for a stream. It reports whether the peer is gone.
func (w *watch) stopMux() bool {
	if !w.stop() {
		<-w.done
	}
	w.done, w.stop = nil, nil
	return w.gone
}
