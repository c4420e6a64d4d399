package proxy

import (
	"iter"
	"net"
	"slices"
	"time"

	"shardway/proxy/h1"
	"shardway/proxy/route"
)

// pathCheckAfter is how long a request runs before the sweep checks the network path to its
// owner for the first time. A waiting stream of a multiplexed session sends nothing that the
// kernel could retransmit. Therefore, after pingAfter, the sweep sends a ping on its session
// from time to time.
const (
	pathCheckAfter = 500 * time.Millisecond
	pingAfter      = 150 * time.Millisecond
)

// pathDetector detects nodes that have become unreachable while requests wait for them. Only the
// sweep uses it.
type pathDetector struct {
	clients      []*client // the clients of this sweep; without the quiescent ones, unless complete
	complete     bool
	nextComplete time.Duration // when a complete sweep is needed to decide about a suspect path; zero means not needed
	// silentPeers contains the results of this sweep, and the nodes that were found silent within
	// the last second.
	silentPeers map[*pool]peerSilence
	paths       []sharedPath // connections of multiplexed sessions that this sweep has used
}

// sharedPath is the state of a connection that several streams share, at this sweep.
type sharedPath struct {
	conn      net.Conn
	pinged    bool
	checked   bool
	state     h1.PathState
	nextCheck time.Duration
}

// path returns the state of the connection below a stream.
func (h *pathDetector) path(s muxStream) *sharedPath {
	conn := s.SessionConn()
	for i := range h.paths {
		if h.paths[i].conn == conn {
			return &h.paths[i]
		}
	}
	h.paths = append(h.paths, sharedPath{conn: conn})
	return &h.paths[len(h.paths)-1]
}

// ping pings the session of a stream, once in each sweep.
func (h *pathDetector) ping(l muxStream) {
	if p := h.path(l); !p.pinged {
		p.pinged = true
		l.Ping()
	}
}

// check is h1.Conn.CheckPath, executed once in each sweep for all streams of a session.
func (h *pathDetector) check(l *upstreamConn) (heard h1.PathState, again time.Duration) {
	if l.mux == nil {
		return l.CheckPath()
	}
	p := h.path(l.mux)
	if !p.checked {
		p.checked = true
		p.state, p.nextCheck = l.CheckPath()
	}
	return p.state, p.nextCheck
}

// peerSilence is whether a node was silent at the time at.
type peerSilence struct {
	at     time.Duration
	silent bool
}

// begin starts a sweep, and removes outdated results.
func (h *pathDetector) begin(list []*client, whole bool, now time.Duration) {
	if h.clients, h.complete = list, whole; whole {
		h.nextComplete = 0
	}
	clear(h.paths)
	h.paths = h.paths[:0]
	for p, s := range h.silentPeers {
		if !s.silent || now-s.at > time.Second {
			delete(h.silentPeers, p)
		}
	}
}

// isDead reports whether the path to the owner of the request that c runs over l is dead. It sets
// the time of the next check.
func (h *pathDetector) isDead(c *client, l *upstreamConn, now time.Duration) bool {
	heard, again := h.check(l)
	c.nextPathCheck = now + again
	if heard == h1.PathSuspect && (h.nextComplete == 0 || c.nextPathCheck < h.nextComplete) {
		h.nextComplete = c.nextPathCheck
	}
	// Without the quiescent clients, a connection that has heard from the node may be missing.
	return heard == h1.PathDead || heard == h1.PathSuspect && h.complete && h.isSilent(l.pool, now)
}

// isSilent reports whether nothing has arrived from a node for a second, according to its
// connections. It needs two silent connections. After a node was found silent, one suffices,
// because the requests on the other connections have been cancelled.
func (h *pathDetector) isSilent(p *pool, now time.Duration) bool {
	last, known := h.silentPeers[p]
	if known && last.at == now {
		return last.silent
	}
	least := 2
	if last.silent {
		least = 1
	}
	found := peerSilence{now, isSilent(p.peerConns(h.clients), least)}
	if h.silentPeers == nil {
		h.silentPeers = make(map[*pool]peerSilence)
	}
	h.silentPeers[p] = found
	return found.silent
}

// pathObserver reports when a connection last received something. h1.Conn implements it.
type pathObserver interface {
	Silent() (d time.Duration, probes int, ok bool)
}

// isSilent reports whether nothing has arrived for a second on any connection to a node, although
// at least the given number of them have sent a probe. Several lost probes at the same time are
// not a coincidence. isSilent stops at the first connection that has received something.
func isSilent(conns iter.Seq[pathObserver], atLeast int) bool {
	probed := 0
	for e := range conns {
		silent, probes, ok := e.Silent()
		if ok && silent < time.Second {
			return false
		}
		if ok && probes > 0 {
			probed++
		}
	}
	return probed >= atLeast
}

// peerConns returns the connections to the pool's node: those in use by a client of the list, and
// the idle ones. It returns the connection of a multiplexed session once, however many streams it
// has.
func (p *pool) peerConns(list []*client) iter.Seq[pathObserver] {
	return func(yield func(pathObserver) bool) {
		var seen []net.Conn
		visit := func(l *upstreamConn) bool {
			if l.mux != nil {
				if slices.Contains(seen, l.mux.SessionConn()) {
					return true
				}
				seen = append(seen, l.mux.SessionConn())
			}
			return yield(l)
		}
		for _, c := range list {
			if c.slot.load().kind != route.Remote {
				continue
			}
			if l := c.slot.conn.Load(); l != nil && l.pool == p && !visit(l) {
				return
			}
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, idle := range [][]*upstreamConn{p.mu.idle, p.mu.idleStreams} {
			for _, l := range idle {
				if !visit(l) {
					return
				}
			}
		}
	}
}
