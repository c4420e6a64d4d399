package h1

import (
	"net"
	"syscall"
)

// MuxStream is a net.Conn that is one stream of a multiplexed session. Many streams share the
// socket of the session, so a Conn cannot query the socket about its own stream. It uses these
// methods instead. Only the state of the network path is queried from the socket.
type MuxStream interface {
	net.Conn
	// AwaitReadable blocks until Read returns without blocking.
	AwaitReadable() error
	// WouldBlock reports whether there is nothing to read: no data, no end of stream and no error.
	WouldBlock() bool
	// WatchDisconnect calls gone once, from another goroutine, when the peer has closed its sending
	// side or the stream breaks. stop ends the watch. It returns true if gone has not been called
	// and will not be called.
	WatchDisconnect(gone func()) (stop func() bool)
	// NotifyReadable arranges for wake to be called once, when Read would no longer block. A
	// deadline and a closed stream also count. If Read would not block now, NotifyReadable returns
	// false and does not call wake. wake must not block, and must not use the stream.
	NotifyReadable(wake func()) bool
	// RawConn gives access to the shared socket, or nil if there is none.
	RawConn() syscall.RawConn
}

// watchMux implements Conn.WatchDisconnect for a stream of a multiplexed session.
func (w *watch) watchMux(stream MuxStream, gone func()) {
	w.isGone = false
	done := make(chan struct{})
	w.done = done
	w.stopFunc = stream.WatchDisconnect(func() {
		defer close(done)
		w.isGone = true
		gone()
	})
}

// stopMux implements Conn.StopWatch for a stream. It reports whether the peer has disconnected.
func (w *watch) stopMux() bool {
	if !w.stopFunc() {
		<-w.done
	}
	w.done, w.stopFunc = nil, nil
	return w.isGone
}
