package proxy

import (
	"iter"
	"net"
	"slices"
	"time"

	"shardway/proxy/h1"
	"shardway/proxy/route"
)

// pathCheckAfter is how long a request runs before the sweep checks the network path to its owner
// for the first time. While a stream of a multiplexed session waits for its response, there is no
// data that the kernel could retransmit. Therefore the sweep sends a ping on the session at
// intervals after pingAfter.
const (
	pathCheckAfter = 500 * time.Millisecond
	pingAfter      = 150 * time.Millisecond
)

// pathDetector detects nodes that have become unreachable while requests wait for their responses.
// Only the sweep uses it.
type pathDetector struct {
	clients      []*client // clients of this sweep; without complete, the quiescent ones are missing
	complete     bool
	nextComplete time.Duration // when a complete sweep is needed to decide about a suspect path; zero means that none is needed
	// silentPeers contains the results of this sweep, and the nodes that were found silent within
	// the last second.
	silentPeers map[*pool]peerSilence
	paths       []sharedPath // connections of multiplexed sessions that have been checked in this sweep
}

// sharedPath is the result of this sweep for a connection that several streams share.
type sharedPath struct {
	conn      net.Conn
	pinged    bool
	checked   bool
	state     h1.PathState
	nextCheck time.Duration
}

// path returns the result for the connection of a stream's session.
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

// ping sends a ping on the session of a stream. It does so once per sweep.
func (h *pathDetector) ping(l muxStream) {
	if p := h.path(l); !p.pinged {
		p.pinged = true
		l.Ping()
	}
}

// check calls h1.Conn.CheckPath. For the streams of a session, it does so once per sweep.
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

// peerSilence is the result of a check whether a node was silent at the time at.
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

// isDead reports whether the path to the owner is dead for the request that c runs over l. It sets
// the time of the next check.
func (h *pathDetector) isDead(c *client, l *upstreamConn, now time.Duration) bool {
	heard, again := h.check(l)
	c.nextPathCheck = now + again
	if heard == h1.PathSuspect && (h.nextComplete == 0 || c.nextPathCheck < h.nextComplete) {
		h.nextComplete = c.nextPathCheck
	}
	// In an incomplete sweep, a connection that has received data from the node may be missing.
	return heard == h1.PathDead || heard == h1.PathSuspect && h.complete && h.isSilent(l.pool, now)
}

// isSilent reports whether no data has arrived from a node for a second. At least two silent
// connections are required. After the node was found silent, one is sufficient, because the
// requests on the other connections have been cancelled.
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

// pathObserver reports when a connection last received data. h1.Conn implements it.
type pathObserver interface {
	SilentFor() (d time.Duration, probes int, ok bool)
}

// isSilent reports whether no data has arrived for a second on all connections to a node, and at
// least atLeast of them have unanswered probes. Lost probes on several connections at the same time
// are no coincidence. isSilent stops at the first connection that has received data.
func isSilent(conns iter.Seq[pathObserver], atLeast int) bool {
	probed := 0
	for e := range conns {
		silent, probes, ok := e.SilentFor()
		if ok && silent < time.Second {
			return false
		}
		if ok && probes > 0 {
			probed++
		}
	}
	return probed >= atLeast
}

// peerConns returns the connections to the pool's node: those that a client of the list uses, and
// the idle ones. The connection of a multiplexed session is returned only once.
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
