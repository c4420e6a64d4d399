package connpool

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"shardway/proxy/wsession"
)

// maxDials is the maximum number of concurrent dials to one destination. More dials would delay
// each other and the connected requests. A dial to a node costs two handshakes. An app accepts no
// more connections at a time than its listen backlog; each further dial waits a second or more for
// a TCP retransmission.
const maxDials = 16

// maxConcurrentDials returns how many dials may be in progress now. A WebSocket that is resumed at
// a node keeps its connection, so returned connections do not help other WebSockets. For WebSockets
// the limit is therefore as high as the number of upgrades that the owner accepts at a time. With a
// lower limit and slow handshakes, thousands of WebSockets would exceed --websocket-resume-timeout.
// An overloaded node dials fewer connections, and includes the WebSockets that await their upgrade
// response in the number. The caller must hold p.mu.
func (p *Pool) maxConcurrentDials() int {
	if !p.IsForNode() {
		return maxDials
	}
	limit := min(max(maxDials, p.mu.queue.upgrades), wsession.MaxUpgrades)
	// Requests precede WebSockets in the queue, so the first waiter shows whether any request waits.
	first := p.mu.queue.head
	onlyWebSocketsWait := first != nil && first.ForUpgrade
	if !onlyWebSocketsWait {
		return limit
	}
	upgradeLimit := p.opts.Pacer.Limit()
	isPaced := upgradeLimit != wsession.MaxUpgrades
	// Streams are always paced. A stream opens without a dial, so all WebSockets would request their
	// upgrade together.
	if !isPaced && !p.forWebSocket() {
		return limit
	}
	return min(limit, upgradeLimit-p.mu.awaitingUpgrade)
}

// activeDials returns the number of dials in progress that are not stuck. The caller must hold p.mu.
func (p *Pool) activeDials() int { return p.mu.dialing - p.mu.slowStart.stuck }

// canDial reports whether the limits of concurrent dials permit another one. The caller must hold
// p.mu.
func (p *Pool) canDial() bool {
	return !p.mu.slowStart.isFull(p.mu.dialing, p.maxConcurrentDials())
}

// atMaxConns reports whether no further connection may be opened. The caller must hold p.mu.
func (p *Pool) atMaxConns() bool {
	return p.opts.MaxConns > 0 && p.mu.open >= p.opts.MaxConns
}

// dialForWaiters starts as many dials as the waiters need and the limits permit. At the limit of
// open connections, it replaces the connection that has been idle longest, which no waiter could
// use. The caller must hold p.mu.
func (p *Pool) dialForWaiters() {
	for p.activeDials() < p.mu.queue.length && p.canDial() {
		if !p.atMaxConns() {
			p.mu.open++
			p.startDial(nil)
			continue
		}
		oldest := p.popOldest()
		if oldest == nil {
			return // all connections are in use
		}
		p.startDial(oldest)
	}
}

// popOldest removes and returns the connection that has been idle longest, or nil. The caller must
// hold p.mu.
func (p *Pool) popOldest() *Conn {
	if len(p.mu.idle) == 0 {
		return nil
	}
	oldest := p.mu.idle[0]
	p.mu.idle = slices.Delete(p.mu.idle, 0, 1)
	return oldest
}

// dialProbe dials a connection to test the destination, without a waiter. The result resets the
// breaker or trips it again. The caller must hold p.mu.
func (p *Pool) dialProbe() {
	if p.activeDials() > 0 {
		return // a dial in progress will test the destination
	}
	if !p.canDial() || p.atMaxConns() {
		return
	}
	p.mu.open++
	p.startDial(nil)
}

// startDial starts a dial, which replaces the connection old unless that is nil. The caller holds
// p.mu.
func (p *Pool) startDial(old *Conn) {
	forWebSocket := p.forWebSocket()
	p.mu.dialing++
	p.opts.Dialers.Add(1)
	if forWebSocket {
		p.mu.dialingStreams++
	}
	go p.runDial(old, p.mu.dialed, p.mu.generation, p.watchDial(), forWebSocket)
}

// runDial dials a connection and gives it to the waiter that is first at that time. That may be
// another request than the one that caused the dial, because a waiter may have received a returned
// connection in the meantime. With forWebSocket, runDial first tries to open a multiplexed stream.
//
// runDial first closes the connection old, unless that is nil. dialedBefore is the number of
// successful dials at the start. endWatch is the result of watchDial.
func (p *Pool) runDial(old *Conn, dialedBefore, generation uint64, endWatch func(), forWebSocket bool) {
	defer p.opts.Dialers.Done()
	if old != nil {
		_ = old.Close()
		old.ReleaseBuffers()
		old.LeaveLoop()
	}
	start := time.Now()
	conn, err := p.dialRecover(forWebSocket)
	handshakeTime := time.Since(start)
	p.mu.Lock()
	if err != nil {
		p.endDial(forWebSocket, endWatch)
		p.mu.open--
		p.dialFailed(err, p.mu.dialed != dialedBefore)
		p.dialForWaiters()
		p.mu.Unlock()
		return
	}
	conn.Pool, conn.shard, conn.generation = p, NoShard, generation
	p.mu.dialed++
	if conn.Mux == nil {
		p.recordHandshake(handshakeTime)
	}
	p.startProbation(conn)
	p.mu.Unlock()
	p.Breaker.OnConnected()
	p.addDialed(conn, func() { p.endDial(forWebSocket, endWatch) })
}

// endDial removes a dial from the counters of the dials in progress. The caller must hold p.mu, and
// must offer the new connection to the waiters before it unlocks p.mu: a waiter without a dial in
// progress causes another dial.
func (p *Pool) endDial(forWebSocket bool, endWatch func()) {
	p.mu.dialing--
	if forWebSocket {
		p.mu.dialingStreams--
	}
	endWatch()
}

// dialFailed handles a failed dial. othersSucceeded means that another dial has succeeded since this
// one started; then the error shows little about the destination. Otherwise dialFailed trips the
// breaker and all waiters receive the error. With othersSucceeded, only the first waiter receives
// the error, so that its request pauses before the next dial. After a timeout, no further pause is
// needed. The caller must hold p.mu.
func (p *Pool) dialFailed(err error, othersSucceeded bool) {
	if !othersSucceeded && !p.mu.closed {
		p.Breaker.Open(err)
		p.failWaiters(err)
		return
	}
	waiter := p.mu.queue.head
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
	p.mu.Lock()
	old := p.adoptPeerProcess(conn)
	p.mu.Unlock()
	p.discardAll(old)
	p.offerNew(conn, endDial)
}

// offerNew gives a new connection to a waiter. If there is none, a connection to a node becomes
// idle. A connection to the app is closed instead, because an app that serves one connection at a
// time would wait for a request on it. endDial is that of addDialed, or nil if conn was offered before.
func (p *Pool) offerNew(conn *Conn, endDial func()) {
	p.mu.Lock()
	if endDial != nil {
		endDial()
	}
	if conn.SingleUse {
		conn.idleSince = p.opts.Clock.Exact() // the wait for the upgrade response starts now
	} else {
		conn.idleSince = p.opts.Clock.Now()
	}
	p.releaseShard(conn) // release the shard of the waiter that had conn but has left the queue
	mayBecomeIdle := p.IsForNode()
	accepted := (mayBecomeIdle || p.mu.queue.length > 0) && p.assign(conn)
	p.dialForWaiters()
	p.mu.Unlock()
	if !accepted {
		p.Discard(conn)
	}
}

// dialRecover dials a connection, or opens a stream for a WebSocket. It converts a panic into an
// error, so that the counters of the pool stay correct.
func (p *Pool) dialRecover(forWebSocket bool) (conn *Conn, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("proxy: dial panicked: %v", v)
		}
	}()
	if forWebSocket {
		if conn = p.opts.OpenWebSocketStream(p.opts.Life); conn != nil {
			return conn, nil
		}
	}
	return p.opts.Dial(p.opts.Life)
}

// forWebSocket reports whether the next dial should open a stream for a WebSocket. That is the case
// if the dials in progress already suffice for all waiting requests. The caller must hold p.mu.
func (p *Pool) forWebSocket() bool {
	waiter := p.mu.queue.firstUpgrade
	if !p.IsForNode() || waiter == nil || !waiter.StreamAllowed {
		return false
	}
	waitingRequests := p.mu.queue.length - p.mu.queue.upgrades
	dialsForRequests := p.mu.dialing - p.mu.dialingStreams
	return waitingRequests <= dialsForRequests
}
