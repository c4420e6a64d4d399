package connpool

import (
	"errors"
	"time"

	"shardway/internal/linkedlist"
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
	// ErrDialing reports that no dial in progress completed in time.
	ErrDialing = errors.New("proxy: no connection was made in time")
	// ErrRouteChanged tells the caller to look up the route again: another node serves the shard,
	// or another pool has replaced this one.
	ErrRouteChanged = errors.New("proxy: the route has changed")
	// ErrStopping reports that this node stops and closes the connections to its app.
	ErrStopping = errors.New("proxy: this node is stopping")
	// ErrBreakerOpen reports that the circuit breaker is open (tripped).
	ErrBreakerOpen = errors.New("proxy: the circuit breaker is open")
)

// Waiter is a request that waits for a connection.
type Waiter struct {
	// Requirements of the request. The caller sets these fields before Join.
	Shard         int  // shard to which the connection is charged; NoShard also means that the route does not depend on the shard
	RequireRecent bool // the request must not be sent twice; see Requirements
	MaxInflight   int  // limit of requests in progress for the shard; zero means no limit
	RequireNew    bool // the request needs a new connection, because reused ones have broken
	ForUpgrade    bool // the request is a resumed WebSocket, which keeps the connection
	StreamAllowed bool // with ForUpgrade: a multiplexed stream may be used instead of a connection
	HasWaited     bool // the request has waited for its shard before; at the in-flight limit it waits again, and is not refused
	// MaxQueued is the maximum number of requests that may wait for a limit of the shard. If it is
	// zero, a request without HasWaited is refused at the in-flight limit.
	MaxQueued int
	// HadTurn is set if the request was sent before. At a limit of its shard, it then precedes all
	// other requests. It has an effect only with MaxQueued.
	HadTurn bool

	granted chan grant // receives the single grant

	// Pool.mu protects the following fields.
	waitsForShard bool                        // the request waits for a limit of its shard, and not in Pool.mu.queue
	inflightFull  bool                        // the in-flight limit of the shard was reached when the request joined
	isCharged     bool                        // the request already counts for its shard; see Pool.Replace
	queue         *waitQueue                  // the queue that contains the waiter; nil means none
	element       linkedlist.Element[*Waiter] // place in queue
}

// grant is the single message to a waiter. It contains a connection or an error.
type grant struct {
	conn *Conn
	err  error
}

// waitQueue is a FIFO queue of waiters, which may also leave it out of order.
type waitQueue struct {
	waiters   linkedlist.List[*Waiter]
	upgrades  int // number of waiters with ForUpgrade
	unbounded int // number of waiters without an in-flight limit
	// upgradesLast places waiters with ForUpgrade after all other waiters. It is set for pools of
	// nodes. If thousands of WebSockets move together, requests would otherwise wait for seconds
	// behind them.
	upgradesLast bool
	firstUpgrade *Waiter // with upgradesLast, the first waiter with ForUpgrade; otherwise nil
}

// push adds a waiter at the end of the queue. With upgradesLast, a waiter without ForUpgrade is added
// before the first waiter with ForUpgrade.
func (q *waitQueue) push(waiter *Waiter) {
	if q.upgradesLast && !waiter.ForUpgrade && q.firstUpgrade != nil {
		q.waiters.InsertBefore(&q.firstUpgrade.element, &waiter.element, waiter)
	} else {
		q.waiters.PushBack(&waiter.element, waiter)
	}
	q.added(waiter)
}

// pushFirst adds a waiter at the beginning of a queue without upgradesLast.
func (q *waitQueue) pushFirst(waiter *Waiter) {
	if first := q.waiters.First(); first != nil {
		q.waiters.InsertBefore(&first.element, &waiter.element, waiter)
	} else {
		q.waiters.PushBack(&waiter.element, waiter)
	}
	q.added(waiter)
}

// added counts a waiter that was added to the list.
func (q *waitQueue) added(waiter *Waiter) {
	waiter.queue = q
	if waiter.MaxInflight == 0 {
		q.unbounded++
	}
	if waiter.ForUpgrade {
		q.upgrades++
		if q.upgradesLast && q.firstUpgrade == nil {
			q.firstUpgrade = waiter
		}
	}
}

// remove removes a waiter, which may be anywhere in the queue.
func (q *waitQueue) remove(waiter *Waiter) {
	if waiter == q.firstUpgrade {
		q.firstUpgrade = waiter.element.Next() // with upgradesLast, all following waiters have ForUpgrade
	}
	waiter.element.Remove()
	waiter.queue = nil
	if waiter.MaxInflight == 0 {
		q.unbounded--
	}
	if waiter.ForUpgrade {
		q.upgrades--
	}
}

// Join adds waiter to the queue, or returns a connection if one is available. If it returns neither
// a connection nor an error, the caller must call Await or LeaveQueue. allDialed reports whether a
// dial is in progress for each waiter in the queue, including this one.
func (p *Pool) Join(waiter *Waiter) (conn *Conn, allDialed bool, err error) {
	waiter.granted = make(chan grant, 1)
	p.mu.Lock()
	defer p.mu.Unlock()
	limits := &p.mu.shardLimits
	if p.mu.closed {
		if p.IsForNode() {
			return nil, false, ErrRouteChanged // another pool has replaced this one
		}
		return nil, false, ErrStopping // ErrRouteChanged would cause an endless loop, because the table still names this node
	}
	waiter.inflightFull = !waiter.isCharged && limits.isInflightFull(waiter.Shard, waiter.MaxInflight)
	if waiter.inflightFull && !limits.mayQueue(waiter) {
		return nil, false, ErrShardInflightLimit
	}
	allowed, mustDial := p.Breaker.Allow()
	if !allowed {
		return nil, false, ErrBreakerOpen
	}
	if mustDial {
		p.dialProbe()
	}
	waiter.waitsForShard = waiter.inflightFull || !waiter.isCharged && limits.isFull(waiter.Shard)
	if waiter.waitsForShard {
		limits.enqueue(waiter)
		return nil, false, nil
	}
	if !waiter.isCharged {
		limits.charge(waiter.Shard)
	}
	if conn := p.popNewestFor(waiter); conn != nil {
		conn.shard = waiter.Shard
		return conn, false, nil
	}
	p.mu.queue.push(waiter)
	p.dialForWaiters()
	return nil, p.mu.dials.active() >= p.mu.queue.waiters.Len(), nil
}

// Replace discards a connection that waiter has received and cannot use, and joins the queue again
// like Join. The request keeps its position among the requests of its shard.
func (p *Pool) Replace(waiter *Waiter, unusable *Conn) (conn *Conn, allDialed bool, err error) {
	p.mu.Lock()
	unusable.shard = NoShard
	p.mu.Unlock()
	p.Discard(unusable) // the pool can then dial a new connection
	waiter.isCharged = true
	conn, allDialed, err = p.Join(waiter)
	waiter.isCharged = false
	if err != nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.mu.shardLimits.uncharge(waiter.Shard)
		p.admitNextOfShard(waiter.Shard)
	}
	return conn, allDialed, err
}

// Await waits for the grant of waiter, after Join has returned neither a connection nor an error. It
// returns an error after limit or when done is closed.
func (p *Pool) Await(waiter *Waiter, done <-chan struct{}, limit time.Duration) (*Conn, error) {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case granted := <-waiter.granted:
		return granted.conn, granted.err
	case <-timer.C:
	case <-done:
	}
	return nil, p.LeaveQueue(waiter)
}

// LeaveQueue removes a waiter whose wait has ended without a connection, and returns the reason. If
// a connection was granted at the same moment, LeaveQueue gives it to another waiter.
func (p *Pool) LeaveQueue(waiter *Waiter) error {
	p.mu.Lock()
	reason := p.waitReason(waiter)
	stillWaits := waiter.queue != nil
	if stillWaits {
		p.removeWaiter(waiter)
	}
	p.mu.Unlock()
	if stillWaits {
		return reason
	}
	granted := <-waiter.granted // does not block: the grant was sent before p.mu was released
	if granted.conn == nil {
		return granted.err
	}
	if granted.conn.Reused {
		p.Put(granted.conn)
	} else {
		p.offerNew(granted.conn, nil)
	}
	return reason
}

// waitReason returns why the waiter has not received a connection yet. The caller must hold p.mu.
func (p *Pool) waitReason(waiter *Waiter) error {
	switch {
	case waiter.waitsForShard && waiter.inflightFull:
		return ErrShardInflightLimit
	case waiter.waitsForShard:
		return ErrShardConnLimit
	case p.mu.dials.inProgress > 0 || p.IsForNode():
		return ErrDialing
	}
	return ErrBusy
}

// RecheckWaiters removes the waiters whose shard has another destination in table. They look up
// their route again. The caller must already have installed table. A waiter rechecks the table
// after joining the queue, so either the waiter or RecheckWaiters notices a concurrent change.
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

// ShardMoved reports whether table routes the waiter's shard to a destination other than the
// pool's.
func (p *Pool) ShardMoved(waiter *Waiter, table *route.Table) bool {
	if waiter.Shard == NoShard {
		return false
	}
	if waiter.Shard >= table.Shards() {
		return true
	}
	r := table.Route(shardmap.Shard(waiter.Shard))
	if !p.IsForNode() {
		return r.Kind != route.Local || r.Instance != p.opts.Instance
	}
	return r.Kind != route.Remote || r.Node != p.opts.Node
}

// failWaiters removes all waiters and sends them err, or tells them to look up their route again if
// err is nil. The caller must hold p.mu.
func (p *Pool) failWaiters(err error) {
	if err == nil {
		err = ErrRouteChanged
	}
	// The list begins with the waiters at a shard limit. Otherwise the removal of a waiter from the
	// queue could move one of them into the queue.
	for _, waiter := range p.waiters() {
		p.removeWaiter(waiter)
		waiter.granted <- grant{err: err}
	}
}

// firstUnbounded returns the first waiter without an in-flight limit, or nil.
func (q *waitQueue) firstUnbounded() *Waiter {
	if q.unbounded == 0 {
		return nil
	}
	waiter := q.waiters.First()
	for waiter.MaxInflight > 0 {
		waiter = waiter.element.Next()
	}
	return waiter
}

// firstStreamWaiter returns the first waiter that can use a stream, or nil.
func (q *waitQueue) firstStreamWaiter() *Waiter {
	waiter := q.firstUpgrade
	for waiter != nil && !waiter.StreamAllowed {
		waiter = waiter.element.Next()
	}
	return waiter
}
