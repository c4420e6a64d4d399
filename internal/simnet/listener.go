package simnet

import (
	"net"
	"time"
)

// backlog is the number of streams that can wait for Accept. Further dials are repeated
// every second, as TCP repeats its SYN.
const backlog = 128

// listener is one listening port.
type listener struct {
	h      *Host
	addr   *net.TCPAddr
	queue  []*conn
	closed bool
	wake   latch
}

var _ net.Listener = (*listener)(nil)

// Accept returns the next stream.
func (l *listener) Accept() (net.Conn, error) {
	n := l.h.n
	n.mu.Lock()
	defer n.mu.Unlock()
	for {
		switch {
		case l.closed:
			return nil, &net.OpError{Op: "accept", Net: "tcp", Addr: l.addr, Err: net.ErrClosed}
		case l.h.state == running && len(l.queue) > 0:
			c := l.queue[0]
			l.queue = l.queue[1:]
			return c, nil
		}
		n.await(&l.wake, nil, time.Time{})
	}
}

// Close stops listening and resets streams that were not accepted.
func (l *listener) Close() error {
	l.h.n.mu.Lock()
	defer l.h.n.mu.Unlock()
	if l.closed {
		return &net.OpError{Op: "close", Net: "tcp", Addr: l.addr, Err: net.ErrClosed}
	}
	l.close()
	return nil
}

func (l *listener) close() {
	l.closed = true
	if l.h.listeners[uint16(l.addr.Port)] == l {
		delete(l.h.listeners, uint16(l.addr.Port))
	}
	for _, c := range l.queue {
		c.shut(errReset)
	}
	l.queue = nil
	l.wake.fire()
	l.h.n.changed.fire()
}

// Addr returns the address of the listener.
func (l *listener) Addr() net.Addr { return l.addr }
