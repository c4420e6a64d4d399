package proxy

import (
	"iter"
	"net"
	"slices"
	"time"

	"shardway/proxy/h1"
)

// pathCheckAfter is for how long a run has gone on when the path to its owner is first
// looked at. A lane has nothing of its own that the kernel would ask for: after pingAfter its
// path is given something to carry every so often.
const (
	pathCheckAfter = 500 * time.Millisecond
	pingAfter      = 150 * time.Millisecond
)

// pathDetector is what the sweep finds out about nodes; its alone.
type pathDetector struct {
	clients      []*client // all, at this sweep; not whole: without those at rest
	complete     bool
	nextComplete time.Duration // when a sweep is to be whole, for a doubt to be judged; zero: no doubt is
	// silentPeers has the nodes that were asked about at this sweep, and those of which
	// nothing was heard at one within the last second.
	silentPeers map[*pool]peerSilence
	paths       []sharedPath // that lanes share, and that were looked at in this sweep
}

// sharedPath is what was found out about one that lanes share.
type sharedPath struct {
	conn      net.Conn
	pinged    bool
	checked   bool
	state     h1.PathState
	nextCheck time.Duration
}

// path returns what is known of the path of a lane.
func (h *pathDetector) path(l muxStream) *sharedPath {
	carrier := l.SessionConn()
	for i := range h.paths {
		if h.paths[i].conn == carrier {
			return &h.paths[i]
		}
	}
	h.paths = append(h.paths, sharedPath{conn: carrier})
	return &h.paths[len(h.paths)-1]
}

// ping gives the path of a lane something to carry, once in a sweep.
func (h *pathDetector) ping(l muxStream) {
	if p := h.path(l); !p.pinged {
		p.pinged = true
		l.Ping()
	}
}

// check is Hear, once in a sweep for all lanes of a path.
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

// peerSilence is what was found out about one node.
type peerSilence struct {
	at     time.Duration
	silent bool
}

// begin begins a sweep.
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

// isDead reports whether the path to the owner of what a connection runs over l is dead, and
// sets when to look again.
func (h *pathDetector) isDead(c *client, l *upstreamConn, now time.Duration) bool {
	heard, again := h.check(l)
	c.nextPathCheck = now + again
	if heard == h1.PathSuspect && (h.nextComplete == 0 || c.nextPathCheck < h.nextComplete) {
		h.nextComplete = c.nextPathCheck
	}
	// Without those at rest not all are here who may have heard of the node.
	return heard == h1.PathDead || heard == h1.PathSuspect && h.complete && h.isSilent(l.pool, now)
}

// isSilent reports whether nothing has come from a node for a second, so far as its
// connections can tell. Once that has been found, those that were cut for it are
// missing as witnesses, and it takes no second one.
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

// pathObserver is what tells of a path: an h1.Conn.
type pathObserver interface {
	Silent() (d time.Duration, probes int, ok bool)
}

// isSilent reports whether nothing has come for a second over any connection to a
// node, though so many at least were asked for a word: that each of several lost one
// is no chance. It stops at the first that has heard something.
func isSilent(ears iter.Seq[pathObserver], least int) bool {
	asked := 0
	for e := range ears {
		silent, probes, ok := e.Silent()
		if ok && silent < time.Second {
			return false
		}
		if ok && probes > 0 {
			asked++
		}
	}
	return asked >= least
}

// peerConns returns the connections to the pool's node, those in use by one of the list and
// the idle ones: each once, however many lanes it has.
func (p *pool) peerConns(list []*client) iter.Seq[pathObserver] {
	return func(yield func(pathObserver) bool) {
		var carriers []net.Conn
		hears := func(l *upstreamConn) bool {
			if l.mux != nil {
				if slices.Contains(carriers, l.mux.SessionConn()) {
					return true
				}
				carriers = append(carriers, l.mux.SessionConn())
			}
			return yield(l)
		}
		for _, c := range list {
			if c.slot.load().kind != Remote {
				continue
			}
			if l := c.slot.link.Load(); l != nil && l.pool == p && !hears(l) {
				return
			}
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, idle := range [][]*upstreamConn{p.mu.idle, p.mu.idleStreams} {
			for _, l := range idle {
				if !hears(l) {
					return
				}
			}
		}
	}
}
