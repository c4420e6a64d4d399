package admin

import (
	"container/list"
	"net"
	"net/netip"
	"sync"
)

// Bounds on the connections of a port: strangers open and keep as many as they like, and each
// takes a descriptor of those that clients need.
const (
	// MaxConns is how many are open at once.
	MaxConns = 512
	// maxFromOne is how many of them are of one address, or of one IPv6 network of 64 bits.
	maxFromOne = 128
)

// intake is a listener that keeps so many connections: the oldest one of its own source makes
// room for another, and where there are too many in all, that of the source with most.
type intake struct {
	net.Listener

	mu  sync.Mutex
	by  map[netip.Addr]*list.List // of net.Conn, the oldest first
	all int
}

// Bounded returns the listener with these bounds. TLS goes over it, not beneath.
func Bounded(ln net.Listener) net.Listener { return &intake{Listener: ln} }

// Accept takes a connection, whose place is free again once it is closed.
func (p *intake) Accept() (net.Conn, error) {
	c, err := p.Listener.Accept()
	if err != nil {
		return nil, err
	}
	t := &taking{Conn: c, of: p, from: origin(c.RemoteAddr().String())}
	if out := p.add(t); out != nil {
		_ = out.Close() // nobody is interested any more
	}
	return t, nil
}

// add takes a place, and returns the connection that makes room for it; nil: there was some.
func (p *intake) add(t *taking) (out *taking) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.by == nil {
		p.by = map[netip.Addr]*list.List{}
	}
	from := p.by[t.from]
	if from == nil {
		from = list.New()
		p.by[t.from] = from
	}
	switch {
	case from.Len() >= maxFromOne:
		out, _ = from.Front().Value.(*taking)
	case p.all >= MaxConns:
		for _, l := range p.by {
			if l.Len() > from.Len() {
				from = l
			}
		}
		if from.Len() > 0 {
			out, _ = from.Front().Value.(*taking)
		}
	}
	if out != nil {
		p.remove(out)
	}
	if p.by[t.from] == nil { // it was the only one there
		p.by[t.from] = list.New()
	}
	t.at = p.by[t.from].PushBack(t)
	p.all++
	return out
}

// remove gives a place back, once. With mu held.
func (p *intake) remove(t *taking) {
	if t.at == nil {
		return
	}
	l := p.by[t.from]
	l.Remove(t.at)
	t.at = nil
	p.all--
	if l.Len() == 0 {
		delete(p.by, t.from)
	}
}

// taking is a connection that has a place.
type taking struct {
	net.Conn

	of   *intake
	from netip.Addr
	at   *list.Element // nil: no more
}

// Close gives the place back.
func (t *taking) Close() error {
	t.of.mu.Lock()
	t.of.remove(t)
	t.of.mu.Unlock()
	return t.Conn.Close()
}
