package peer

import (
	"container/list"
	"net"
	"net/netip"
	"time"
)

// spared is how long a handshake may take before it gives way to another of its
// source: of a hundred that begin at once some end, and not each the other.
const minHandshakeTime = 250 * time.Millisecond

// young holds the connections that are not through the preface. Who sent one is
// not known before that, but where it came from is: nobody finishes TCP's
// handshake in another's name. So each source has places of its own, and only its
// own connections make room for one more. Sources that are no node's share
// MaxHandshakes besides; there the one with most makes room. However many
// strangers knock, a node's heartbeats and Raft streams find their places, and
// the streams of requests leave them some: a node dials 16 at once. One that has
// hardly begun makes room only for a source with fewer than its own: else whoever
// shares a node's address, and knocks without a pause, would let none of its
// handshakes end.
type pendingConns struct {
	sources   map[string]*source
	strangers int // connections of sources that are no node's
}

// source is an address, or what belongs to one owner of IPv6.
type source struct {
	key   string
	node  bool
	conns list.List // of youngConn, the oldest first
}

// youngConn is a place; at is nil once it has been given back.
type pendingConn struct {
	raw     net.Conn
	source  *source
	element *list.Element
	began   time.Time
}

// add takes a place, and returns the connection that has to go for it, if any; that
// may be raw itself, which has no place then.
func (y *pendingConns) add(raw net.Conn, o *Options) (c *pendingConn, out net.Conn) {
	s, now := y.sourceOf(raw, o), time.Now()
	from := s // whose oldest makes room
	full := s.conns.Len() >= o.MaxFromOne
	if !full && !s.node && y.strangers >= o.MaxHandshakes {
		full, from = true, y.largestStranger()
	}
	if full {
		oldest, _ := from.conns.Front().Value.(*pendingConn)
		if now.Sub(oldest.began) < minHandshakeTime && (from == s || from.conns.Len() <= s.conns.Len()+1) {
			return nil, raw
		}
		y.remove(oldest)
		out = oldest.raw
	}
	if y.sources == nil {
		y.sources = make(map[string]*source)
	}
	y.sources[s.key] = s // remove may have let it go
	c = &pendingConn{raw: raw, source: s, began: now}
	c.element = s.conns.PushBack(c)
	if !s.node {
		y.strangers++
	}
	return c, out
}

// source finds the source of a connection. Whether it is a node's is asked when
// its first connection comes.
func (y *pendingConns) sourceOf(raw net.Conn, o *Options) *source {
	key, node := origin(raw.RemoteAddr(), o)
	if s := y.sources[key]; s != nil {
		return s
	}
	return &source{key: key, node: node}
}

// Origin returns whose an address is, whatever the port: all of an owner's addresses have one,
// but that of a node, which is its own.
func (p *Port) Origin(from net.Addr) string {
	key, _ := origin(from, &p.o)
	return key
}

// origin returns whose an address is, and whether a node is there.
func origin(from net.Addr, o *Options) (key string, node bool) {
	key = from.String()
	if host, _, err := net.SplitHostPort(key); err == nil {
		key = host
	}
	addr, _ := netip.ParseAddr(key) // the zero Addr is no node's
	addr = addr.WithZone("").Unmap()
	node = addr.IsValid() && o.Near != nil && o.Near(addr)
	switch {
	case node || addr.Is4():
		key = addr.String()
	case addr.Is6():
		// One owner has a /64 at least.
		if p, err := addr.Prefix(64); err == nil {
			key = p.String()
		}
	}
	return key, node
}

// most is the stranger with most connections.
func (y *pendingConns) largestStranger() *source {
	var most *source
	for _, s := range y.sources {
		if !s.node && (most == nil || s.conns.Len() > most.conns.Len()) {
			most = s
		}
	}
	return most
}

// remove gives a place back; a second call does nothing.
func (y *pendingConns) remove(c *pendingConn) {
	if c.element == nil {
		return
	}
	s := c.source
	s.conns.Remove(c.element)
	c.element = nil
	if !s.node {
		y.strangers--
	}
	if s.conns.Len() == 0 {
		delete(y.sources, s.key)
	}
}

// each calls f for every connection.
func (y *pendingConns) each(f func(net.Conn)) {
	for _, s := range y.sources {
		for e := s.conns.Front(); e != nil; e = e.Next() {
			if c, ok := e.Value.(*pendingConn); ok {
				f(c.raw)
			}
		}
	}
}
