package connlimit

import (
	"net"
	"net/netip"
	"sync"

	"shardway/internal/linkedlist"
)

// Limits on the connections of a port. Without them an unauthenticated client could use up the file
// descriptors of the process.
const (
	// MaxConns is the maximum number of open connections.
	MaxConns = 512
	// maxConnsPerSource is the maximum for one source: an IPv4 address or an IPv6 /64 network.
	maxConnsPerSource = 128
)

// listener limits the number of open connections. A connection beyond the limit of its
// source replaces the oldest connection of this source. A connection beyond the total limit
// replaces the oldest connection of the source that has most.
type listener struct {
	net.Listener

	// mu protects the following fields and limitedConn.element.
	mu       sync.Mutex
	bySource map[netip.Addr]*linkedlist.List[*limitedConn] // oldest first
	count    int                                           // open connections
}

// NewListener returns a listener that limits the connections of ln. TLS must be added on top of it.
func NewListener(ln net.Listener) net.Listener { return &listener{Listener: ln} }

// Accept accepts a connection, which counts until it is closed. It may close another connection to
// make room.
func (ln *listener) Accept() (net.Conn, error) {
	conn, err := ln.Listener.Accept()
	if err != nil {
		return nil, err
	}
	limited := &limitedConn{Conn: conn, listener: ln, source: SourceOf(conn.RemoteAddr().String())}
	if evicted := ln.insert(limited); evicted != nil {
		_ = evicted.Close() // an error changes nothing: the connection is no longer in use
	}
	return limited, nil
}

// insert counts a connection. It returns the connection that must be closed to make room, or nil.
func (ln *listener) insert(conn *limitedConn) (evicted *limitedConn) {
	ln.mu.Lock()
	defer ln.mu.Unlock()
	if ln.bySource == nil {
		ln.bySource = map[netip.Addr]*linkedlist.List[*limitedConn]{}
	}
	evicted = ln.connToEvictLocked(conn.source)
	if evicted != nil {
		ln.removeLocked(evicted)
	}
	conns := ln.bySource[conn.source]
	if conns == nil {
		conns = new(linkedlist.List[*limitedConn])
		ln.bySource[conn.source] = conns
	}
	conns.PushBack(&conn.element, conn)
	ln.count++
	return evicted
}

// connToEvictLocked returns the connection that must be closed before the source may open another one,
// or nil if no limit is reached. mu must be held.
func (ln *listener) connToEvictLocked(source netip.Addr) *limitedConn {
	conns := ln.bySource[source]
	if conns != nil && conns.Len() >= maxConnsPerSource {
		return conns.First()
	}
	if ln.count < MaxConns {
		return nil
	}
	largest := conns // the source itself, unless another source has more connections
	for _, other := range ln.bySource {
		if largest == nil || other.Len() > largest.Len() {
			largest = other
		}
	}
	return largest.First()
}

// removeLocked stops counting a connection. It does nothing if the connection is not counted. mu must be held.
func (ln *listener) removeLocked(conn *limitedConn) {
	if !conn.element.InList() {
		return
	}
	conns := ln.bySource[conn.source]
	conn.element.Remove()
	ln.count--
	if conns.Len() == 0 {
		delete(ln.bySource, conn.source)
	}
}

// limitedConn is a connection that a listener counts.
type limitedConn struct {
	net.Conn

	listener *listener
	source   netip.Addr
	element  linkedlist.Element[*limitedConn] // in no list if the connection is not counted
}

// Close closes the connection and stops counting it.
func (c *limitedConn) Close() error {
	c.listener.mu.Lock()
	c.listener.removeLocked(c)
	c.listener.mu.Unlock()
	return c.Conn.Close()
}
