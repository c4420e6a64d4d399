package connpool

import (
	"errors"
	"fmt"
	"net"
	"time"

	"shardway/proxy/wsession"
)

// maxDials is the maximum number of concurrent dials to one destination. More dials would delay each other and the
// connected requests. A dial to a node costs two handshakes. An app accepts no more connections at once than its listen
// backlog; each further dial waits a second or more for a TCP retransmission.
const maxDials = 16

// maxConcurrentDials returns how many dials may be in progress now. A WebSocket that is resumed at a node keeps its
// connection, so returned connections do not help other WebSockets. For WebSockets, the limit is therefore the number
// of upgrades that the owner accepts at once. With a lower limit and slow handshakes, thousands of WebSockets would
// exceed --websocket-resume-timeout. An overloaded node dials fewer connections, and counts the WebSockets that await
// their upgrade response. The caller must hold p.mu.
func (p *Pool) maxConcurrentDials() int {
	if !p.IsForNode() {
		return maxDials
	}
	limit := min(max(maxDials, p.mu.queue.upgrades), wsession.MaxUpgrades)
	// Requests precede WebSockets in the queue, so the first waiter shows whether any request waits.
	first := p.mu.queue.waiters.First()
	onlyWebSocketsWait := first != nil && first.ForUpgrade
	if !onlyWebSocketsWait {
		return limit
	}
	upgradeLimit := p.opts.Pacer.Limit()
	isPaced := upgradeLimit != wsession.MaxUpgrades
	// Streams are always paced. A stream opens without a dial, so all WebSockets would request their
	// upgrade together.
	if !isPaced && !p.mu.dials.nextOpensStream(&p.mu.queue) {
		return limit
	}
	return min(limit, upgradeLimit-p.mu.upgrades.awaitingResponse)
}

// atMaxConns reports whether no further connection may be opened. The caller must hold p.mu.
func (p *Pool) atMaxConns() bool {
	return p.opts.MaxConns > 0 && p.mu.open >= p.opts.MaxConns
}

// dialForWaiters starts as many dials as the waiters need and the limits permit. At the limit of
// open connections, it replaces the connection that has been idle longest, which no waiter could
// use. The caller must hold p.mu.
func (p *Pool) dialForWaiters() {
	for p.mu.dials.active() < p.mu.queue.waiters.Len() && !p.mu.dials.isFull(p.maxConcurrentDials()) {
		if !p.atMaxConns() {
			p.mu.open++
			p.startDial(nil)
			continue
		}
		oldest := p.mu.idle.popOldest()
		if oldest == nil {
			return // all connections are in use
		}
		p.startDial(oldest)
	}
}

// dialProbe dials a connection to test the destination, without a waiter. The result resets the
// breaker or trips it again. The caller must hold p.mu.
func (p *Pool) dialProbe() {
	if p.mu.dials.active() > 0 {
		return // a dial in progress will test the destination
	}
	if p.mu.dials.isFull(p.maxConcurrentDials()) || p.atMaxConns() {
		return
	}
	p.mu.open++
	p.startDial(nil)
}

// dial is a dial in progress.
type dial struct {
	replaced        *Conn  // idle connection that the new one replaces; nil means none
	opensStream     bool   // try to open a stream for a WebSocket first
	generation      uint64 // Pool.mu.generation at the start
	succeededBefore uint64 // dialCounts.succeeded at the start
	endWatch        func() // result of watchDial
}

// startDial starts a dial. If replaced is not nil, it is an idle connection that the new one takes the place of. The
// caller must hold p.mu and must already have counted the new connection in p.mu.open.
func (p *Pool) startDial(replaced *Conn) {
	d := dial{
		replaced: replaced, opensStream: p.mu.dials.nextOpensStream(&p.mu.queue),
		generation: p.mu.generation, succeededBefore: p.mu.dials.succeeded, endWatch: p.watchDial(),
	}
	p.mu.dials.recordStart(&d)
	p.opts.Dialers.Add(1)
	go p.runDial(d)
}

// runDial dials a connection and gives it to whichever waiter is then first. This may not be the request that triggered
// the dial, because that request may have received a returned connection in the meantime.
func (p *Pool) runDial(d dial) {
	defer p.opts.Dialers.Done()
	if d.replaced != nil {
		_ = d.replaced.Close()
		d.replaced.ReleaseBuffers()
		d.replaced.LeaveLoop()
	}
	start := time.Now()
	conn, err := p.opts.open(d.opensStream)
	handshakeTime := time.Since(start)
	p.mu.Lock()
	if err != nil {
		p.mu.dials.recordEnd(&d)
		p.mu.open--
		p.handleFailedDial(err, p.mu.dials.succeeded != d.succeededBefore)
		p.dialForWaiters()
		p.mu.Unlock()
		return
	}
	conn.Pool, conn.shard, conn.generation = p, NoShard, d.generation
	p.mu.dials.succeeded++
	webSocketsWait := p.mu.queue.upgrades > 0
	if webSocketsWait && conn.Mux == nil {
		p.mu.upgrades.recordHandshake(handshakeTime)
	}
	p.startProbation(conn)
	p.mu.Unlock()
	p.Breaker.OnConnected()
	p.addDialed(conn, func() { p.mu.dials.recordEnd(&d) })
}

// handleFailedDial handles a failed dial. othersSucceeded is set if another dial has succeeded since this one started,
// so that the error says little about the destination. In that case only the first waiter receives the error, so that
// its request pauses before the next dial; after a timeout, no further pause is needed. Otherwise handleFailedDial
// trips the breaker, and all waiters receive the error. The caller must hold p.mu.
func (p *Pool) handleFailedDial(err error, othersSucceeded bool) {
	if !othersSucceeded && !p.mu.closed {
		p.Breaker.Open(err)
		p.failWaiters(err)
		return
	}
	waiter := p.mu.queue.waiters.First()
	if waiter == nil || isDialTimeout(err) {
		return
	}
	p.removeWaiter(waiter)
	waiter.granted <- grant{err: err}
}

// isDialTimeout reports whether err is the timeout of a dial.
func isDialTimeout(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}

// addDialed gives a new connection to a waiter. It also discards idle connections to previous
// processes of the node. endDial removes the dial from the counters; addDialed calls it with p.mu
// held.
func (p *Pool) addDialed(conn *Conn, endDial func()) {
	var old []*Conn
	p.mu.Lock()
	if p.mu.peerProcess.adopt(conn) {
		old = p.mu.idle.removeMatching(p.mu.peerProcess.differsFrom)
	}
	p.mu.Unlock()
	p.discardAll(old)
	p.offerNew(conn, endDial)
}

// offerNew gives a new connection to a waiter. If there is none, a connection to a node becomes idle. A connection to
// the app is closed instead, because an app that serves one connection at a time would wait for a request on it.
// endDial is the function passed to addDialed, or nil if conn was offered before.
func (p *Pool) offerNew(conn *Conn, endDial func()) {
	p.mu.Lock()
	if endDial != nil {
		endDial()
	}
	if conn.SingleUse {
		conn.upgradeStartedAt = p.opts.Clock.Exact() // the wait for the upgrade response starts now
	}
	conn.idleSince = p.opts.Clock.Now()
	p.releaseShard(conn) // release the shard of the previous waiter, which has left the queue
	mayBecomeIdle := p.IsForNode()
	accepted := (mayBecomeIdle || p.mu.queue.waiters.Len() > 0) && p.assign(conn)
	p.dialForWaiters()
	p.mu.Unlock()
	if !accepted {
		p.Discard(conn)
	}
}

// open dials a connection. If opensStream is set, it first tries to open a stream for a WebSocket. It converts a panic
// into an error, so that the counters of the pool stay correct.
func (o *Options) open(opensStream bool) (conn *Conn, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("proxy: dial panicked: %v", v)
		}
	}()
	if opensStream {
		if conn = o.OpenWebSocketStream(o.Life); conn != nil {
			return conn, nil
		}
	}
	return o.Dial(o.Life)
}
