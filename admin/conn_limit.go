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
	maxConnsPerSource = 128
)

// intake is a listener that keeps so many connections: the oldest one of its own source makes
// room for another, and where there are too many in all, that of the source with most.
type limitedListener struct {
	net.Listener

	mu       sync.Mutex
	bySource map[netip.Addr]*list.List // of net.Conn, the oldest first
	count    int
}

// Bounded returns the listener with these bounds. TLS goes over it, not beneath.
func LimitConns(ln net.Listener) net.Listener { return &limitedListener{Listener: ln} }

// Accept takes a connection, whose place is free again once it is closed.
func (ln *limitedListener) Accept() (net.Conn, error) {
	conn, err := ln.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &limitedConn{Conn: conn, listener: ln, source: sourceOf(conn.RemoteAddr().String())}
	if evicted := ln.insert(c); evicted != nil {
		_ = evicted.Close() // an error changes nothing: the connection is no longer in use
	}
	return c, nil
}

// add takes a place, and returns the connection that makes room for it; nil: there was some.
func (ln *limitedListener) insert(c *limitedConn) (out *limitedConn) {
	ln.mu.Lock()
	defer ln.mu.Unlock()
	if ln.bySource == nil {
		ln.bySource = map[netip.Addr]*list.List{}
	}
	from := ln.bySource[c.source]
	if from == nil {
		from = list.New()
		ln.bySource[c.source] = from
	}
	switch {
	case from.Len() >= maxConnsPerSource:
		out, _ = from.Front().Value.(*limitedConn)
	case ln.count >= MaxConns:
		for _, l := range ln.bySource {
			if l.Len() > from.Len() {
				from = l
			}
		}
		if from.Len() > 0 {
			out, _ = from.Front().Value.(*limitedConn)
		}
	}
	if out != nil {
		ln.removeLocked(out)
	}
	if ln.bySource[c.source] == nil { // it was the only one there
		ln.bySource[c.source] = list.New()
	}
	c.element = ln.bySource[c.source].PushBack(c)
	ln.count++
	return out
}

// remove gives a place back, once. With mu held.
func (ln *limitedListener) removeLocked(c *limitedConn) {
	if c.element == nil {
		return
	}
	l := ln.bySource[c.source]
	l.Remove(c.element)
	c.element = nil
	ln.count--
	if l.Len() == 0 {
		delete(ln.bySource, c.source)
	}
}

// taking is a connection that has a place.
type limitedConn struct {
	net.Conn

	listener *limitedListener
	source   netip.Addr
	element  *list.Element // nil: no more
}

// Close gives the place back.
func (c *limitedConn) Close() error {
	c.listener.mu.Lock()
	c.listener.removeLocked(c)
	c.listener.mu.Unlock()
	return c.Conn.Close()
}
