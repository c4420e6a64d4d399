package peer

import (
	"net"
	"net/netip"
	"time"

	"shardway/internal/linkedlist"
)

// minHandshakeTime is how long a handshake is protected from eviction by another handshake of the
// same source. If a hundred handshakes start at the same time, some of them finish, instead of each
// evicting another one.
const minHandshakeTime = 250 * time.Millisecond

// pendingConns holds the connections that have not finished the handshake, and limits them.
//
// The node of such a connection is not known, but its source address is, because TCP's handshake cannot be
// completed with a forged address. Each source has a limit of its own (MaxHandshakesPerSource), and only its
// own connections are evicted for a new one. Sources that belong to no node also share a limit
// (MaxHandshakes); the source with the most connections is evicted there. Therefore connections of other
// sources never displace heartbeats and Raft streams of a node. Its request streams do not displace them
// either: a node dials up to 16 of these at once.
//
// A handshake that has just begun is evicted only for a source with fewer connections than its
// own. Otherwise a client that shares the address of a node, and connects without a pause, would
// let none of its handshakes finish.
type pendingConns struct {
	sources      map[string]*source
	unknownConns int // connections of sources that belong to no node
}

// source is an address, or an IPv6 prefix that belongs to one owner.
type source struct {
	key    string                        // result of origin
	isNode bool                          // the address belongs to a node of the cluster
	conns  linkedlist.List[*pendingConn] // oldest first
}

// pendingConn is a connection in handshake.
type pendingConn struct {
	raw     net.Conn
	source  *source
	element linkedlist.Element[*pendingConn] // place in source.conns; in no list after remove
	start   time.Time
}

// add adds a connection, and returns the connection to evict for it, if any. The caller must close
// that connection. evicted may be raw itself; pending is nil then.
func (pc *pendingConns) add(raw net.Conn, options *Options) (pending *pendingConn, evicted net.Conn) {
	src, now := pc.sourceOf(raw, options), time.Now()
	if victimSource := pc.sourceToReduce(src, options); victimSource != nil {
		oldest := victimSource.conns.First()
		hasJustBegun := now.Sub(oldest.start) < minHandshakeTime
		victimHasMore := victimSource != src && victimSource.conns.Len() > src.conns.Len()+1
		if hasJustBegun && !victimHasMore {
			return nil, raw
		}
		pc.remove(oldest)
		evicted = oldest.raw
	}
	if pc.sources == nil {
		pc.sources = make(map[string]*source)
	}
	pc.sources[src.key] = src // remove may have deleted it
	pending = &pendingConn{raw: raw, source: src, start: now}
	src.conns.PushBack(&pending.element, pending)
	if !src.isNode {
		pc.unknownConns++
	}
	return pending, evicted
}

// sourceToReduce returns the source that must give up a connection before src may add one, or nil if
// no limit is reached.
func (pc *pendingConns) sourceToReduce(src *source, options *Options) *source {
	if src.conns.Len() >= options.MaxHandshakesPerSource {
		return src
	}
	if !src.isNode && pc.unknownConns >= options.MaxHandshakes {
		return pc.largestUnknownSource()
	}
	return nil
}

// sourceOf returns the source of a connection. Whether it belongs to a node is determined when its
// first connection arrives.
func (pc *pendingConns) sourceOf(raw net.Conn, options *Options) *source {
	key, isNode := origin(raw.RemoteAddr(), options)
	if known := pc.sources[key]; known != nil {
		return known
	}
	return &source{key: key, isNode: isNode}
}

// Origin returns the owner of an address, without the port. All addresses of one owner have the
// same origin, except the address of a node, which is its own origin.
func (p *Port) Origin(from net.Addr) string {
	key, _ := origin(from, &p.options)
	return key
}

// origin returns the key of the owner of an address, and whether the address belongs to a node.
func origin(remoteAddr net.Addr, options *Options) (key string, isNode bool) {
	key = remoteAddr.String()
	if host, _, err := net.SplitHostPort(key); err == nil {
		key = host
	}
	addr, _ := netip.ParseAddr(key) // the zero Addr belongs to no node
	addr = addr.WithZone("").Unmap()
	isNode = addr.IsValid() && options.IsNodeAddr != nil && options.IsNodeAddr(addr)
	if isNode || addr.Is4() {
		return addr.String(), isNode
	}
	if prefix, err := addr.Prefix(64); err == nil && addr.Is6() { // an owner has at least a /64
		return prefix.String(), false
	}
	return key, false
}

// largestUnknownSource returns the source with the most connections among those that belong to no
// node.
func (pc *pendingConns) largestUnknownSource() *source {
	var largest *source
	for _, src := range pc.sources {
		if !src.isNode && (largest == nil || src.conns.Len() > largest.conns.Len()) {
			largest = src
		}
	}
	return largest
}

// remove removes a connection. A second call has no effect.
func (pc *pendingConns) remove(pending *pendingConn) {
	if !pending.element.InList() {
		return
	}
	src := pending.source
	pending.element.Remove()
	if !src.isNode {
		pc.unknownConns--
	}
	if src.conns.Len() == 0 {
		delete(pc.sources, src.key)
	}
}

// each calls visit for every connection.
func (pc *pendingConns) each(visit func(net.Conn)) {
	for _, src := range pc.sources {
		for pending := range src.conns.All() {
			visit(pending.raw)
		}
	}
}
