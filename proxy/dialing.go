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

// maxConcurrentDials returns how many may be made at once now. Sockets on their way back to a node
// take each a connection for good, and nobody is served by those that come back: as many are
// made as the owner lets ask at once, or a path on which a handshake takes its time would
// take thousands longer than they have (socket-wait). A node that is late makes fewer, and
// counts the sockets that have one and no answer yet. With mu held.
func (p *pool) maxConcurrentDials() int {
	if p.node == "" {
		return maxDials
	}
	most := min(max(maxDials, p.mu.queue.upgrades), maxUpgrades)
	w, tempo := p.mu.queue.head, p.pacer.limit()
	if w == nil || !w.forUpgrade { // where any is in line, a request stands first
		return most
	}
	if tempo == maxUpgrades && !p.forWebSocket() { // a lane takes no time: then all that are open would ask at once
		return most
	}
	return min(most, tempo-p.mu.awaitingUpgrade)
}

// dialForWaiters has as many connections made as those in line need and the bounds allow.
// At the bound of open ones it takes the place of the one that has been idle
// longest: what is in line could not use that. With mu held.
func (p *pool) dialForWaiters() {
	for p.mu.dialing-p.mu.slowStart.stuck < p.mu.queue.n && !p.mu.slowStart.full(p.mu.dialing, p.maxConcurrentDials()) {
		var old *upstreamConn
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
		p.startDial(old)
	}
}

// dialProbe has a connection made that nobody is in line for: whether the place takes any
// opens the gate, or keeps it shut. With mu held.
func (p *pool) dialProbe() {
	atBound := p.max > 0 && p.mu.open >= p.max
	if p.mu.dialing > p.mu.slowStart.stuck || p.mu.slowStart.full(p.mu.dialing, p.maxConcurrentDials()) || atBound {
		return // what is under way will tell
	}
	p.mu.open++
	p.startDial(nil)
}

// startDial begins to make a connection. With mu held.
func (p *pool) startDial(old *upstreamConn) {
	forWebSocket := p.forWebSocket()
	p.mu.dialing++
	p.dialers.Add(1)
	if forWebSocket {
		p.mu.dialingStreams++
	}
	go p.runDial(old, p.mu.dialed, p.mu.generation, p.watchDial(), forWebSocket)
}

// runDial makes a connection, in the place of an old one if there is one, for the
// first in line. Whoever that is by then: a request that sees another one come
// free before does not wait for this. With leg a lane will do, which only sockets take.
func (p *pool) runDial(old *upstreamConn, won, era uint64, over func(), forWebSocket bool) {
	defer p.dialers.Done()
	if old != nil {
		_ = old.Close()
		old.Release()
		old.leaveLoop()
	}
	began := time.Now()
	l, err := p.dialRecover(forWebSocket)
	took := time.Since(began)
	p.mu.Lock()
	p.mu.dialing--
	if forWebSocket {
		p.mu.dialingStreams--
	}
	over()
	if err != nil {
		p.mu.open--
		p.dialFailed(err, p.mu.dialed != won)
		p.dialForWaiters()
		p.mu.Unlock()
		return
	}
	l.pool, l.shard, l.generation = p, noShard, era
	p.mu.dialed++
	if l.mux == nil {
		p.recordHandshake(took)
	}
	p.startProbation(l)
	p.mu.Unlock()
	p.breaker.onConnected()
	p.addDialed(l)
}

// dialFailed tells those in line that a connection did not come about. If others have
// meanwhile, that says little of the place: one of them is told, so that a place
// which takes some and refuses some is not asked without a pause, or none if it
// took its time for that. With mu held.
func (p *pool) dialFailed(err error, others bool) {
	switch {
	case !others && !p.mu.closed:
		p.breaker.trip(err)
		p.failWaiters(err)
	case !isTimeout(err):
		if w := p.mu.queue.head; w != nil {
			p.remove(w)
			w.granted <- grant{err: err}
		}
	}
}

func isTimeout(err error) bool {
	var slow net.Error
	return errors.As(err, &slow) && slow.Timeout()
}

// addDialed hands on a connection that was made now. What is idle to a process before the one that
// has taken it leads nowhere any more.
func (p *pool) addDialed(l *upstreamConn) {
	p.mu.Lock()
	old := p.adoptPeerProcess(l)
	p.mu.Unlock()
	p.discardAll(old)
	p.offerNew(l)
}

// offerNew hands a new connection on. One to a node is kept for later if nobody is in
// line any more; one to the app is closed: an app that serves one connection at a
// time would wait for a request on it, and serve nobody else.
func (p *pool) offerNew(l *upstreamConn) {
	p.mu.Lock()
	if l.idleSince = p.clock.now(); l.singleUse {
		l.idleSince = p.clock.exact() // for how long its socket's answer takes
	}
	p.releaseShard(l) // who gave it up, if anybody did
	kept := (p.node != "" || p.mu.queue.n > 0) && p.assign(l)
	p.dialForWaiters()
	p.mu.Unlock()
	if !kept {
		p.discard(l)
	}
}

// dialRecover dials, or opens a lane for a socket; a bug there ends that only.
func (p *pool) dialRecover(forWebSocket bool) (l *upstreamConn, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("%w: %v", errPanicked, v)
		}
	}()
	if forWebSocket {
		if l = p.openWebSocketStream(p.life); l != nil {
			return l, nil
		}
	}
	return p.dial(p.life)
}

// newPool makes the pool of a node, or of the app if that is empty.
func (s *Server) newPool(node string, dial func(ctx context.Context) (*upstreamConn, error)) *pool {
	p := &pool{node: node, dial: dial, clock: &s.clock, life: s.life, dialers: &s.dialers, streams: &s.streams, pacer: &s.sockets.tempo}
	all := rooms{s.o.Room, s.waiting, s.sockets.room}
	p.breaker.rooms, p.backoff.room, p.upgradeBackoff.room = all, all, all
	p.mu.queue.upgradesLast = node != ""
	if node == "" {
		p.mu.slowStart.size, p.mu.shardLimits.counts = firstWindow, true
	}
	return p
}

func (s *Server) newPeerPool(node string) *pool {
	p := s.newPool(node, func(ctx context.Context) (*upstreamConn, error) { return s.dialPeer(ctx, node) })
	p.maxIdle, p.openStream = s.o.PeerConns, func() *upstreamConn { return s.openStream(node) }
	p.openWebSocketStream = func(ctx context.Context) *upstreamConn { return s.openWebSocketStream(ctx, node) }
	return p
}
