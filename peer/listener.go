package peer

import (
	"context"
	"net"
	"sync"
)

// listener passes the streams of one kind to the callers of Accept.
type listener struct {
	addr     net.Addr
	accepted chan *Conn
	done     chan struct{}
	once     sync.Once
}

var _ net.Listener = (*listener)(nil)

// Listener returns a net.Listener for the streams of kind, for libraries that accept connections
// themselves. It registers the listener with Handle. The accepted connections are of type *Conn.
// addr is the result of Addr. After Close, Accept returns an error and new streams of the kind are
// closed; the port itself is not affected.
func (p *Port) Listener(kind Kind, addr net.Addr) net.Listener {
	l := &listener{addr: addr, accepted: make(chan *Conn), done: make(chan struct{})}
	p.Handle(kind, l.handle)
	return l
}

func (l *listener) handle(ctx context.Context, conn *Conn) {
	select {
	case l.accepted <- conn:
	case <-l.done:
		_ = conn.Close()
	case <-ctx.Done():
		_ = conn.Close()
	}
}

// Accept returns the next stream, or net.ErrClosed after Close.
func (l *listener) Accept() (net.Conn, error) {
	select {
	case <-l.done:
		return nil, net.ErrClosed
	case c := <-l.accepted:
		return c, nil
	}
}

// Close makes current and later calls of Accept return net.ErrClosed.
func (l *listener) Close() error {
	l.once.Do(func() { close(l.done) })
	return nil
}

// Addr returns the address that was passed to Listener.
func (l *listener) Addr() net.Addr { return l.addr }
