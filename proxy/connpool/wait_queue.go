package connpool

import (
	"errors"
	"time"

	"shardway/proxy/route"
	"shardway/shardmap"
)

// Errors of a wait for a connection, in addition to the errors of a dial.
var (
	// ErrBusy reports that all connections are in use, and that no request returned one in time.
	ErrBusy = errors.New("proxy: all connections in use")
	// ErrShardConnLimit reports that all connections that one shard may use are in use.
	ErrShardConnLimit = errors.New("proxy: all connections of the shard's share in use")
	// ErrShardInflightLimit reports that the shard has the maximum number of requests in progress.
	ErrShardInflightLimit = errors.New("proxy: too many requests of the shard")
	// ErrDialing reports that connections are being dialed, and that none was established in time.
	ErrDialing = errors.New("proxy: no connection was made in time")
	// ErrRouteChanged tells the caller to look up the route again: another node serves the shard,
	// or another pool has replaced this one.
	ErrRouteChanged = errors.New("proxy: look again")
	// ErrStopping reports that this node stops and closes the connections to its app.
	ErrStopping = errors.New("proxy: this node is stopping")
	// ErrBreakerOpen reports that the circuit breaker is open (tripped).
	ErrBreakerOpen = errors.New("proxy: waiting for its turn to ask")
)

// Waiter is a request that waits for a connection.
type Waiter struct {
	Shard         int  // shard to which the connection is charged; NoShard also means that the route does not depend on the shard
	Fresh         bool // as in Requirements
	MaxInflight   int  // as in Requirements
	NewOnly       bool // the request needs a new connection, because reused ones have broken
	ForUpgrade    bool // the request is a resumed WebSocket, which keeps the connection
	StreamAllowed bool // with ForUpgrade: a multiplexed stream can be used instead of a connection
	waitsForShard bool // the request waits for a limit of its shard, outside the queue
	// HasWaited means that the request has waited for its shard before. At the in-flight limit,
	// such a request waits again, whereas other requests are refused. inflightFull means that the
	// limit was reached when the request joined.
	HasWaited, inflightFull bool
	granted                 chan grant

	queue      *waitQueue
	prev, next *Waiter
}

// grant is the single message to a waiter. It contains a connection or an error.
type grant struct {
	conn *Conn
	err  error
}

// waitQueue is a FIFO queue of waiters, as a linked list, because a waiter can leave from the
// middle.
type waitQueue struct {
	head, tail *Waiter
	length     int
	upgrades   int // of n, waiters with ForUpgrade
	unbounded  int // of n, waiters without an in-flight limit
	// upgradesLast places waiters with ForUpgrade after all other waiters. It is set for pools of
	// nodes. If thousands of WebSockets move together, requests would otherwise wait for seconds
	// behind them.
	upgradesLast bool
	firstUpgrade *Waiter // with upgradesLast, the first waiter with ForUpgrade
}

func (q *waitQueue) push(waiter *Waiter) {
	var behind *Waiter
	if q.upgradesLast && !waiter.ForUpgrade {
		behind = q.firstUpgrade
	}
	waiter.queue, waiter.prev, waiter.next = q, q.tail, behind
	if behind != nil {
		waiter.prev, behind.prev = behind.prev, waiter
	} else {
		q.tail = waiter
	}
	if waiter.prev == nil {
		q.head = waiter
	} else {
		waiter.prev.next = waiter
	}
	q.length++
	if waiter.MaxInflight == 0 {
		q.unbounded++
	}
	if waiter.ForUpgrade {
		q.upgrades++
		if q.firstUpgrade == nil {
			q.firstUpgrade = waiter
		}
	}
}

func (q *waitQueue) remove(waiter *Waiter) {
	if waiter == q.firstUpgrade {
		q.firstUpgrade = waiter.next // only used with upgradesLast
	}
	if waiter.prev == nil {
		q.head = waiter.next
	} else {
		waiter.prev.next = waiter.next
	}
	if waiter.next == nil {
		q.tail = waiter.prev
	} else {
		waiter.next.prev = waiter.prev
	}
	waiter.queue, waiter.prev, waiter.next = nil, nil, nil
	q.length--
	if waiter.MaxInflight == 0 {
		q.unbounded--
	}
	if waiter.ForUpgrade {
		q.upgrades--
	}
}

// Join adds waiter to the queue, or returns a connection if one is available. dialed means that a dial
// is in progress for each waiter, including waiter.
func (p *Pool) Join(waiter *Waiter) (conn *Conn, dialed bool, err error) {
	waiter.granted = make(chan grant, 1)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.closed {
		return nil, false, p.closedError()
	}
	if waiter.inflightFull = p.mu.shardLimits.isInflightFull(waiter.Shard, waiter.MaxInflight); waiter.inflightFull && !waiter.HasWaited {
		return nil, false, ErrShardInflightLimit
	}
	ok, dials := p.Breaker.Allow()
	if !ok {
		return nil, false, ErrBreakerOpen
	}
	if dials {
		p.dialProbe()
	}
	if waiter.waitsForShard = waiter.inflightFull || p.mu.shardLimits.isFull(waiter.Shard); waiter.waitsForShard {
		p.mu.shardLimits.enqueue(waiter)
		return nil, false, nil
	}
	p.mu.shardLimits.charge(waiter.Shard)
	if conn := p.popNewestFor(waiter); conn != nil {
		conn.shard = waiter.Shard
		return conn, false, nil
	}
	p.mu.queue.push(waiter)
	p.dialForWaiters()
	return nil, p.mu.dialing-p.mu.slowStart.stuck >= p.mu.queue.length, nil
}

// closedError returns the error for a request that joins a closed pool. The pool of a node has been
// replaced by another one, so the request looks up its route again. The pool of the app is closed
// when this node stops; ErrRouteChanged would cause an endless loop then.
func (p *Pool) closedError() error {
	if !p.IsForNode() {
		return ErrStopping
	}
	return ErrRouteChanged
}

// Await waits for the grant of waiter, after join has returned no connection. It returns an error after
// limit or when done is closed.
func (p *Pool) Await(waiter *Waiter, done <-chan struct{}, limit time.Duration) (*Conn, error) {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case t := <-waiter.granted:
		return t.conn, t.err
	case <-timer.C:
	case <-done:
	}
	return nil, p.LeaveQueue(waiter)
}

// LeaveQueue removes a waiter whose wait has ended without a connection, and returns the reason. If
// a connection was granted at the same moment, LeaveQueue gives it to another waiter.
func (p *Pool) LeaveQueue(waiter *Waiter) error {
	p.mu.Lock()
	why := ErrBusy
	switch {
	case waiter.waitsForShard && waiter.inflightFull:
		why = ErrShardInflightLimit
	case waiter.waitsForShard:
		why = ErrShardConnLimit
	case p.mu.dialing > 0 || p.IsForNode():
		why = ErrDialing
	}
	waits := waiter.queue != nil
	if waits {
		p.removeWaiter(waiter)
	}
	p.mu.Unlock()
	if waits {
		return why
	}
	t := <-waiter.granted // does not block: the grant was sent before p.mu was released
	switch {
	case t.conn == nil:
		return t.err
	case t.conn.Reused:
		p.Put(t.conn)
	default:
		p.offerNew(t.conn, nil)
	}
	return why
}

// RecheckWaiters removes the waiters whose shard has another destination in the table table. The caller
// must have installed table before. A waiter checks the table again after it has joined the queue. So
// either the waiter or RecheckWaiters notices a concurrent change.
func (p *Pool) RecheckWaiters(table *route.Table) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, waiter := range p.waiters() {
		if waiter.queue != nil && p.ShardMoved(waiter, table) {
			p.removeWaiter(waiter)
			waiter.granted <- grant{err: ErrRouteChanged}
		}
	}
}

// ShardMoved reports whether table routes the shard of the waiter to another destination than that of
// the pool.
func (p *Pool) ShardMoved(waiter *Waiter, table *route.Table) bool {
	if waiter.Shard == NoShard {
		return false
	}
	if waiter.Shard >= table.Shards() {
		return true
	}
	r := table.Route(shardmap.Shard(waiter.Shard))
	if !p.IsForNode() {
		return r.Kind != route.Local
	}
	return r.Kind != route.Remote || r.Node != p.opts.Node
}

// failWaiters removes all waiters and sends them the error. nil means that they must look up their
// route again. The caller must hold p.mu.
func (p *Pool) failWaiters(err error) {
	if err == nil {
		err = ErrRouteChanged
	}
	for _, waiter := range p.waiters() { // the list begins with the waiters at a shard limit, so that a removal does not move another one of them into the queue
		p.removeWaiter(waiter)
		waiter.granted <- grant{err: err}
	}
}

// firstStreamWaiter returns the first waiter that can use a stream, or nil.
func (q *waitQueue) firstStreamWaiter() *Waiter {
	waiter := q.firstUpgrade
	for waiter != nil && !waiter.StreamAllowed {
		waiter = waiter.next
	}
	return waiter
}
