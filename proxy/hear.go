package proxy

import (
	"iter"
	"net"
	"slices"
	"time"

	"shardway/proxy/h1"
)

// hearAfter is for how long a run has gone on when the path to its owner is first
// looked at. A lane has nothing of its own that the kernel would ask for: after pingAfter its
// path is given something to carry every so often.
const (
	hearAfter = 500 * time.Millisecond
	pingAfter = 150 * time.Millisecond
)

// hearing is what the sweep finds out about nodes; its alone.
type hearing struct {
	list  []*client // all, at this sweep; not whole: without those at rest
	whole bool
	due   time.Duration // when a sweep is to be whole, for a doubt to be judged; zero: no doubt is
	// silent has the nodes that were asked about at this sweep, and those of which
	// nothing was heard at one within the last second.
	silent map[*pool]silence
	paths  []shared // that lanes share, and that were looked at in this sweep
}

// shared is what was found out about one that lanes share.
type shared struct {
	carrier net.Conn
	pinged  bool
	looked  bool
	heard   h1.PathState
	again   time.Duration
}

// path returns what is known of the path of a lane.
func (h *hearing) path(l lane) *shared {
	carrier := l.SessionConn()
	for i := range h.paths {
		if h.paths[i].carrier == carrier {
			return &h.paths[i]
		}
	}
	h.paths = append(h.paths, shared{carrier: carrier})
	return &h.paths[len(h.paths)-1]
}

// ping gives the path of a lane something to carry, once in a sweep.
func (h *hearing) ping(l lane) {
	if p := h.path(l); !p.pinged {
		p.pinged = true
		l.Ping()
	}
}

// hear is Hear, once in a sweep for all lanes of a path.
func (h *hearing) hear(l *link) (heard h1.PathState, again time.Duration) {
	if l.lane == nil {
		return l.CheckPath()
	}
	p := h.path(l.lane)
	if !p.looked {
		p.looked = true
		p.heard, p.again = l.CheckPath()
	}
	return p.heard, p.again
}

// silence is what was found out about one node.
type silence struct {
	at      time.Duration
	unheard bool
}

// begin begins a sweep.
func (h *hearing) begin(list []*client, whole bool, now time.Duration) {
	if h.list, h.whole = list, whole; whole {
		h.due = 0
	}
	clear(h.paths)
	h.paths = h.paths[:0]
	for p, s := range h.silent {
		if !s.unheard || now-s.at > time.Second {
			delete(h.silent, p)
		}
	}
}

// deaf reports whether the path to the owner of what a connection runs over l is dead, and
// sets when to look again.
func (h *hearing) deaf(c *client, l *link, now time.Duration) bool {
	heard, again := h.hear(l)
	c.hear = now + again
	if heard == h1.PathSuspect && (h.due == 0 || c.hear < h.due) {
		h.due = c.hear
	}
	// Without those at rest not all are here who may have heard of the node.
	return heard == h1.PathDead || heard == h1.PathSuspect && h.whole && h.unheard(l.pool, now)
}

// unheard reports whether nothing has come from a node for a second, so far as its
// connections can tell. Once that has been found, those that were cut for it are
// missing as witnesses, and it takes no second one.
func (h *hearing) unheard(p *pool, now time.Duration) bool {
	last, known := h.silent[p]
	if known && last.at == now {
		return last.unheard
	}
	least := 2
	if last.unheard {
		least = 1
	}
	found := silence{now, unheard(p.witnesses(h.list), least)}
	if h.silent == nil {
		h.silent = make(map[*pool]silence)
	}
	h.silent[p] = found
	return found.unheard
}

// ear is what tells of a path: an h1.Conn.
type ear interface {
	Silent() (d time.Duration, probes int, ok bool)
}

// unheard reports whether nothing has come for a second over any connection to a
// node, though so many at least were asked for a word: that each of several lost one
// is no chance. It stops at the first that has heard something.
func unheard(ears iter.Seq[ear], least int) bool {
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

// witnesses returns the connections to the pool's node, those in use by one of the list and
// the idle ones: each once, however many lanes it has.
func (p *pool) witnesses(list []*client) iter.Seq[ear] {
	return func(yield func(ear) bool) {
		var carriers []net.Conn
		hears := func(l *link) bool {
			if l.lane != nil {
				if slices.Contains(carriers, l.lane.SessionConn()) {
					return true
				}
				carriers = append(carriers, l.lane.SessionConn())
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
		for _, idle := range [][]*link{p.mu.idle, p.mu.lanes} {
			for _, l := range idle {
				if !hears(l) {
					return
				}
			}
		}
	}
}
