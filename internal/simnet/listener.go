package simnet

import (
	"net"
	"time"
)

// maxBacklog is the number of streams that can wait for Accept. Further dials are repeated
// every second, as TCP repeats its SYN.
const maxBacklog = 128

// listener is one listening port.
type listener struct {
	host    *Host
	addr    *net.TCPAddr
	backlog []*conn
	closed  bool
	wake    notifier
}

var _ net.Listener = (*listener)(nil)

// Accept returns the next stream.
func (l *listener) Accept() (net.Conn, error) {
	n := l.host.network
	n.mu.Lock()
	defer n.mu.Unlock()
	for {
		switch {
		case l.closed:
			return nil, &net.OpError{Op: "accept", Net: "tcp", Addr: l.addr, Err: net.ErrClosed}
		case l.host.state == running && len(l.backlog) > 0:
			c := l.backlog[0]
			l.backlog = l.backlog[1:]
			return c, nil
		}
		n.await(&l.wake, nil, time.Time{})
	}
}

// Close stops listening and resets streams that were not accepted.
func (l *listener) Close() error {
	l.host.network.mu.Lock()
	defer l.host.network.mu.Unlock()
	if l.closed {
		return &net.OpError{Op: "close", Net: "tcp", Addr: l.addr, Err: net.ErrClosed}
	}
	l.close()
	return nil
}

// close frees the port, and resets the connections that were not accepted. The lock of the network must be held.
func (l *listener) close() {
	l.closed = true
	if l.host.listeners[uint16(l.addr.Port)] == l {
		delete(l.host.listeners, uint16(l.addr.Port))
	}
	for _, c := range l.backlog {
		c.closeWithError(errReset)
	}
	l.backlog = nil
	l.wake.notifyAll()
	l.host.network.changed.notifyAll()
}

// Addr returns the address of the listener.
func (l *listener) Addr() net.Addr { return l.addr }
