package proxy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"
)

// maxDials is how many connections to one place are made at once: more would
// only wait for each other there, and keep what is already connected from being
// served. Those to nodes cost two handshakes; an app takes no more than its listen
// backlog, and what does not fit waits for TCP's retries of a second and more.
const maxDials = 16

// mostDials returns how many may be made at once now. Sockets on their way back to a node
// take each a connection for good, and nobody is served by those that come back: as many are
// made as the owner lets ask at once, or a path on which a handshake takes its time would
// take thousands longer than they have (socket-wait). A node that is late makes fewer, and
// counts the sockets that have one and no answer yet. With mu held.
func (p *pool) mostDials() int {
	if p.node == "" {
		return maxDials
	}
	most := min(max(maxDials, p.mu.line.keeps), maxUpgrades)
	w, tempo := p.mu.line.head, p.tempo.size()
	if w == nil || !w.keeps { // where any is in line, a request stands first
		return most
	}
	if tempo == maxUpgrades && !p.forLeg() { // a lane takes no time: then all that are open would ask at once
		return most
	}
	return min(most, tempo-p.mu.flying)
}

// want has as many connections made as those in line need and the bounds allow.
// At the bound of open ones it takes the place of the one that has been idle
// longest: what is in line could not use that. With mu held.
func (p *pool) want() {
	for p.mu.dialing-p.mu.window.stuck < p.mu.line.n && !p.mu.window.full(p.mu.dialing, p.mostDials()) {
		var old *link
		if p.max > 0 && p.mu.open >= p.max {
			if len(p.mu.idle) == 0 {
				return
			}
			old = p.mu.idle[0]
			last := copy(p.mu.idle, p.mu.idle[1:])
			p.mu.idle[last] = nil
			p.mu.idle = p.mu.idle[:last]
		} else {
			p.mu.open++
		}
		p.start(old)
	}
}

// ask has a connection made that nobody is in line for: whether the place takes any
// opens the gate, or keeps it shut. With mu held.
func (p *pool) ask() {
	atBound := p.max > 0 && p.mu.open >= p.max
	if p.mu.dialing > p.mu.window.stuck || p.mu.window.full(p.mu.dialing, p.mostDials()) || atBound {
		return // what is under way will tell
	}
	p.mu.open++
	p.start(nil)
}

// start begins to make a connection. With mu held.
func (p *pool) start(old *link) {
	leg := p.forLeg()
	p.mu.dialing++
	p.dialers.Add(1)
	if leg {
		p.mu.laning++
	}
	go p.connect(old, p.mu.won, p.mu.era, p.watchDial(), leg)
}

// connect makes a connection, in the place of an old one if there is one, for the
// first in line. Whoever that is by then: a request that sees another one come
// free before does not wait for this. With leg a lane will do, which only sockets take.
func (p *pool) connect(old *link, won, era uint64, over func(), leg bool) {
	defer p.dialers.Done()
	if old != nil {
		_ = old.Close()
		old.Release()
		old.unheard()
	}
	began := time.Now()
	l, err := p.dialSafely(leg)
	took := time.Since(began)
	p.mu.Lock()
	p.mu.dialing--
	if leg {
		p.mu.laning--
	}
	over()
	if err != nil {
		p.mu.open--
		p.failed(err, p.mu.won != won)
		p.want()
		p.mu.Unlock()
		return
	}
	l.pool, l.place, l.era = p, unshared, era
	p.mu.won++
	if l.lane == nil {
		p.dialed(took)
	}
	p.begin(l)
	p.mu.Unlock()
	p.gate.connected()
	p.keep(l)
}

// failed tells those in line that a connection did not come about. If others have
// meanwhile, that says little of the place: one of them is told, so that a place
// which takes some and refuses some is not asked without a pause, or none if it
// took its time for that. With mu held.
func (p *pool) failed(err error, others bool) {
	switch {
	case !others && !p.mu.closed:
		p.gate.close(err)
		p.sendOff(err)
	case !isTimeout(err):
		if w := p.mu.line.head; w != nil {
			p.remove(w)
			w.turn <- turn{err: err}
		}
	}
}

func isTimeout(err error) bool {
	var slow net.Error
	return errors.As(err, &slow) && slow.Timeout()
}

// keep hands on a connection that was made now. What is idle to a process before the one that
// has taken it leads nowhere any more.
func (p *pool) keep(l *link) {
	p.mu.Lock()
	old := p.meet(l)
	p.mu.Unlock()
	p.dropAll(old)
	p.pass(l)
}

// pass hands a new connection on. One to a node is kept for later if nobody is in
// line any more; one to the app is closed: an app that serves one connection at a
// time would wait for a request on it, and serve nobody else.
func (p *pool) pass(l *link) {
	p.mu.Lock()
	if l.since = p.clock.now(); l.lone {
		l.since = p.clock.exact() // for how long its socket's answer takes
	}
	p.vacate(l) // who gave it up, if anybody did
	kept := (p.node != "" || p.mu.line.n > 0) && p.give(l)
	p.want()
	p.mu.Unlock()
	if !kept {
		p.drop(l)
	}
}

// dialSafely dials, or opens a lane for a socket; a bug there ends that only.
func (p *pool) dialSafely(leg bool) (l *link, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("%w: %v", errPanicked, v)
		}
	}()
	if leg {
		if l = p.leg(p.life); l != nil {
			return l, nil
		}
	}
	return p.dial(p.life)
}

// newPool makes the pool of a node, or of the app if that is empty.
func (s *Server) newPool(node string, dial func(ctx context.Context) (*link, error)) *pool {
	p := &pool{node: node, dial: dial, clock: &s.clock, life: s.life, dialers: &s.dialers, streams: &s.streams, tempo: &s.sockets.tempo}
	all := rooms{s.o.Room, s.waiting, s.sockets.room}
	p.gate.room, p.busy.room, p.upgrades.room = all, all, all
	p.mu.line.last = node != ""
	if node == "" {
		p.mu.window.size, p.mu.shares.counts = firstWindow, true
	}
	return p
}

func (s *Server) newPeerPool(node string) *pool {
	p := s.newPool(node, func(ctx context.Context) (*link, error) { return s.dialPeer(ctx, node) })
	p.maxIdle, p.lane = s.o.PeerConns, func() *link { return s.openLane(node) }
	p.leg = func(ctx context.Context) *link { return s.openLeg(ctx, node) }
	return p
}
