package proxy

import (
	"errors"
	"time"

	"shardway/proxy/route"
	"shardway/shardmap"
)

// Errors of a wait for a connection, in addition to the errors of a dial.
var (
	// errBusy reports that all connections are in use, and that no request returned one in time.
	errBusy = errors.New("proxy: all connections in use")
	// errShardConnLimit reports that all connections that one shard may use are in use.
	errShardConnLimit = errors.New("proxy: all connections of the shard's share in use")
	// errShardInflightLimit reports that the shard has the maximum number of requests in progress.
	errShardInflightLimit = errors.New("proxy: too many requests of the shard")
	// errDialing reports that connections are being dialed, and that none was established in time.
	errDialing = errors.New("proxy: no connection was made in time")
	// errRouteChanged tells the caller to look up the route again: another node serves the shard,
	// or another pool has replaced this one.
	errRouteChanged = errors.New("proxy: look again")
	// errStopping reports that this node stops and closes the connections to its app.
	errStopping = errors.New("proxy: this node is stopping")
	// errBreakerOpen reports that the circuit breaker is open (tripped).
	errBreakerOpen = errors.New("proxy: waiting for its turn to ask")
)

// waiter is a request that waits for a connection.
type waiter struct {
	shard         int  // shard to which the connection is charged; noShard also means that the route does not depend on the shard
	fresh         bool // as in connRequest
	maxInflight   int  // as in connRequest
	newOnly       bool // the request needs a new connection, because reused ones have broken
	forUpgrade    bool // the request is a resumed WebSocket, which keeps the connection
	streamAllowed bool // with forUpgrade: a multiplexed stream can be used instead of a connection
	waitsForShard bool // the request waits for a limit of its shard, outside the queue
	// hasWaited means that the request has waited for its shard before. At the in-flight limit,
	// such a request waits again, whereas other requests are refused. inflightFull means that the
	// limit was reached when the request joined.
	hasWaited, inflightFull bool
	granted                 chan grant

	queue      *waitQueue
	prev, next *waiter
}

// grant is the single message to a waiter. It contains a connection or an error.
type grant struct {
	conn *upstreamConn
	err  error
}

// waitQueue is a FIFO queue of waiters, as a linked list, because a waiter can leave from the
// middle.
type waitQueue struct {
	head, tail *waiter
	length     int
	upgrades   int // of n, waiters with forUpgrade
	unbounded  int // of n, waiters without an in-flight limit
	// upgradesLast places waiters with forUpgrade behind all other waiters. It is set for pools of
	// nodes. If thousands of WebSockets move together, requests would otherwise wait for seconds
	// behind them.
	upgradesLast bool
	firstUpgrade *waiter // with upgradesLast, the first waiter with forUpgrade
}

func (q *waitQueue) push(w *waiter) {
	var behind *waiter
	if q.upgradesLast && !w.forUpgrade {
		behind = q.firstUpgrade
	}
	w.queue, w.prev, w.next = q, q.tail, behind
	if behind != nil {
		w.prev, behind.prev = behind.prev, w
	} else {
		q.tail = w
	}
	if w.prev == nil {
		q.head = w
	} else {
		w.prev.next = w
	}
	q.length++
	if w.maxInflight == 0 {
		q.unbounded++
	}
	if w.forUpgrade {
		q.upgrades++
		if q.firstUpgrade == nil {
			q.firstUpgrade = w
		}
	}
}

func (q *waitQueue) remove(w *waiter) {
	if w == q.firstUpgrade {
		q.firstUpgrade = w.next // only used with upgradesLast
	}
	if w.prev == nil {
		q.head = w.next
	} else {
		w.prev.next = w.next
	}
	if w.next == nil {
		q.tail = w.prev
	} else {
		w.next.prev = w.prev
	}
	w.queue, w.prev, w.next = nil, nil, nil
	q.length--
	if w.maxInflight == 0 {
		q.unbounded--
	}
	if w.forUpgrade {
		q.upgrades--
	}
}

// join adds w to the queue, or returns a connection if one is available. dialed means that a dial
// is in progress for each waiter, including w.
func (p *pool) join(w *waiter) (l *upstreamConn, dialed bool, err error) {
	w.granted = make(chan grant, 1)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.closed {
		return nil, false, p.closedError()
	}
	if w.inflightFull = p.mu.shardLimits.isInflightFull(w.shard, w.maxInflight); w.inflightFull && !w.hasWaited {
		return nil, false, errShardInflightLimit
	}
	ok, dials := p.breaker.Allow()
	if !ok {
		return nil, false, errBreakerOpen
	}
	if dials {
		p.dialProbe()
	}
	if w.waitsForShard = w.inflightFull || p.mu.shardLimits.isFull(w.shard); w.waitsForShard {
		p.mu.shardLimits.enqueue(w)
		return nil, false, nil
	}
	p.mu.shardLimits.charge(w.shard)
	if l := p.popNewestFor(w); l != nil {
		l.shard = w.shard
		return l, false, nil
	}
	p.mu.queue.push(w)
	p.dialForWaiters()
	return nil, p.mu.dialing-p.mu.slowStart.stuck >= p.mu.queue.length, nil
}

// closedError returns the error for a request that joins a closed pool. The pool of a node has been
// replaced by another one, so the request looks up its route again. The pool of the app is closed
// when this node stops; errRouteChanged would cause an endless loop then.
func (p *pool) closedError() error {
	if !p.isForNode() {
		return errStopping
	}
	return errRouteChanged
}

// await waits for the grant of w, after join has returned no connection. It returns an error after
// limit or when done is closed.
func (p *pool) await(w *waiter, done <-chan struct{}, limit time.Duration) (*upstreamConn, error) {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case t := <-w.granted:
		return t.conn, t.err
	case <-timer.C:
	case <-done:
	}
	return nil, p.leaveQueue(w)
}

// leaveQueue removes a waiter whose wait has ended without a connection, and returns the reason. If
// a connection was granted at the same moment, leaveQueue gives it to another waiter.
func (p *pool) leaveQueue(w *waiter) error {
	p.mu.Lock()
	why := errBusy
	switch {
	case w.waitsForShard && w.inflightFull:
		why = errShardInflightLimit
	case w.waitsForShard:
		why = errShardConnLimit
	case p.mu.dialing > 0 || p.isForNode():
		why = errDialing
	}
	waits := w.queue != nil
	if waits {
		p.removeWaiter(w)
	}
	p.mu.Unlock()
	if waits {
		return why
	}
	t := <-w.granted // does not block: the grant was sent before p.mu was released
	switch {
	case t.conn == nil:
		return t.err
	case t.conn.reused:
		p.put(t.conn)
	default:
		p.offerNew(t.conn, nil)
	}
	return why
}

// recheckWaiters removes the waiters whose shard has another destination in the table t. The caller
// must have installed t before. A waiter checks the table again after it has joined the queue. So
// either the waiter or recheckWaiters notices a concurrent change.
func (p *pool) recheckWaiters(t *route.Table) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, w := range p.waiters() {
		if w.queue != nil && p.shardMoved(w, t) {
			p.removeWaiter(w)
			w.granted <- grant{err: errRouteChanged}
		}
	}
}

// shardMoved reports whether t routes the shard of the waiter to another destination than that of
// the pool.
func (p *pool) shardMoved(w *waiter, t *route.Table) bool {
	if w.shard == noShard {
		return false
	}
	if w.shard >= t.Shards() {
		return true
	}
	r := t.Route(shardmap.Shard(w.shard))
	if !p.isForNode() {
		return r.Kind != route.Local
	}
	return r.Kind != route.Remote || r.Node != p.opts.Node
}

// failWaiters removes all waiters and sends them the error. nil means that they must look up their
// route again. The caller must hold p.mu.
func (p *pool) failWaiters(err error) {
	if err == nil {
		err = errRouteChanged
	}
	for _, w := range p.waiters() { // the list begins with the waiters at a shard limit, so that a removal does not move another one of them into the queue
		p.removeWaiter(w)
		w.granted <- grant{err: err}
	}
}

// firstStreamWaiter returns the first waiter that can use a stream, or nil.
func (q *waitQueue) firstStreamWaiter() *waiter {
	w := q.firstUpgrade
	for w != nil && !w.streamAllowed {
		w = w.next
	}
	return w
}
