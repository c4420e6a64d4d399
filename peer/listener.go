package peer

import (
	"context"
	"net"
	"sync"
)

// listener hands the streams of one kind to whoever calls Accept.
type listener struct {
	addr  net.Addr
	conns chan *Conn
	done  chan struct{}
	once  sync.Once
}

var _ net.Listener = (*listener)(nil)

// Listener registers, like Handle, a net.Listener as what handles the streams
// of kind, for libraries that want to accept for themselves. The streams it
// returns are *Conn. addr is what its Addr returns. Closing it stops Accept
// and from then on closes what arrives; the port goes on.
func (p *Port) Listener(kind Kind, addr net.Addr) net.Listener {
	l := &listener{addr: addr, conns: make(chan *Conn), done: make(chan struct{})}
	p.Handle(kind, l.handle)
	return l
}

func (l *listener) handle(ctx context.Context, c *Conn) {
	select {
	case l.conns <- c:
	case <-l.done:
		_ = c.Close()
	case <-ctx.Done():
		_ = c.Close()
	}
}

// Accept returns the next stream, or net.ErrClosed once the listener is closed.
func (l *listener) Accept() (net.Conn, error) {
	select {
	case <-l.done:
		return nil, net.ErrClosed
	case c := <-l.conns:
		return c, nil
	}
}

// Close ends Accept.
func (l *listener) Close() error {
	l.once.Do(func() { close(l.done) })
	return nil
}

// Addr returns the address given to Listener.
func (l *listener) Addr() net.Addr { return l.addr }
