package proxy

import (
	"errors"
	"time"

	"shardway/shardmap"
)

// What a wait for a connection may end with, beside what dialing says.
var (
	// errBusy reports that a pool's connections are all in use and that none came
	// free in time.
	errBusy = errors.New("proxy: all connections in use")
	// errShardConnLimit is the same for the share of one shard.
	errShardConnLimit = errors.New("proxy: all connections of the shard's share in use")
	// errShardInflightLimit reports that as many requests of the shard are under way as may be.
	errShardInflightLimit = errors.New("proxy: too many requests of the shard")
	// errDialing reports that connections are being made and that none was in time.
	errDialing = errors.New("proxy: no connection was made in time")
	// errRouteChanged asks to look at the table again: another place serves the shard, or
	// the pool is another one by now.
	errRouteChanged = errors.New("proxy: look again")
	// errStopping is the end of the app's connections.
	errStopping = errors.New("proxy: this node is stopping")
	// errBreakerOpen reports that the gate is shut.
	errBreakerOpen = errors.New("proxy: waiting for its turn to ask")
	// errNoApp is why the gate of a node is shut whose app takes no connections.
	errNoApp = errors.New("proxy: the app behind the owner accepts no connections")
)

// waiter is a request in line for a connection.
type waiter struct {
	shard         int  // the shard it counts for, or unshared: then it looks for no other place
	fresh         bool // as for pool.take
	maxInflight   int  // as for pool.take
	newOnly       bool // it takes none that is idle: those that carried it before broke
	forUpgrade    bool // it gives none back: a socket on its way back
	streamAllowed bool // and a lane will do
	waitsForShard bool // it waits for its shard's share first, or with crowd for its bound
	// patient: it has waited for its shard and goes on in line, where others are refused.
	hasWaited, inflightFull bool
	granted                 chan grant

	in         *waitQueue
	prev, next *waiter
}

// grant is what a waiter is sent, once: a connection, or why there is none.
type grant struct {
	l   *upstreamConn
	err error
}

// waitQueue is a first-in-first-out line of waiters that any of them can leave from
// the middle.
type waitQueue struct {
	head, tail *waiter
	n          int
	upgrades   int // of these, those that give nothing back
	unbounded  int // and those that no bound of their shard holds up
	// upgradesLast has those stand behind all others, in the line of a place that takes any number
	// of connections: thousands that move at once would keep requests for seconds.
	upgradesLast bool
	firstUpgrade *waiter // with last, the first of them
}

func (q *waitQueue) push(w *waiter) {
	var behind *waiter
	if q.upgradesLast && !w.forUpgrade {
		behind = q.firstUpgrade
	}
	w.in, w.prev, w.next = q, q.tail, behind
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
	q.n++
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
		q.firstUpgrade = w.next // with last; else nobody asks
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
	w.in, w.prev, w.next = nil, nil, nil
	q.n--
	if w.maxInflight == 0 {
		q.unbounded--
	}
	if w.forUpgrade {
		q.upgrades--
	}
}

// join gets in line. A connection that came free meanwhile is returned at once;
// dialed tells that one is being made for everybody in line, this one included.
func (p *pool) join(w *waiter) (l *upstreamConn, dialed bool, err error) {
	w.granted = make(chan grant, 1)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.closed {
		return nil, false, p.closedError()
	}
	if w.inflightFull = p.mu.shardLimits.inflightFull(w.shard, w.maxInflight); w.inflightFull && !w.hasWaited {
		return nil, false, errShardInflightLimit
	}
	ok, dials := p.breaker.allow()
	if !ok {
		return nil, false, errBreakerOpen
	}
	if dials {
		p.dialProbe()
	}
	if w.waitsForShard = w.inflightFull || p.mu.shardLimits.full(w.shard); w.waitsForShard {
		p.mu.shardLimits.park(w)
		return nil, false, nil
	}
	p.mu.shardLimits.charge(w.shard)
	if l := p.popNewestFor(w); l != nil {
		l.shard = w.shard
		return l, false, nil
	}
	p.mu.queue.push(w)
	p.dialForWaiters()
	return nil, p.mu.dialing-p.mu.slowStart.stuck >= p.mu.queue.n, nil
}

// closedError says what became of a pool that was closed. Another one takes the place of a
// node's; the app's is closed when this node stops, and to look again would be to
// look for ever.
func (p *pool) closedError() error {
	if p.node == "" {
		return errStopping
	}
	return errRouteChanged
}

// await waits for what join did not give.
func (p *pool) await(w *waiter, done <-chan struct{}, limit time.Duration) (*upstreamConn, error) {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case t := <-w.granted:
		return t.l, t.err
	case <-timer.C:
	case <-done:
	}
	return nil, p.leaveQueue(w)
}

// leaveQueue takes a waiter out of the line, whether it is still in it or has been
// served this moment, and says what it waited for in vain.
func (p *pool) leaveQueue(w *waiter) error {
	p.mu.Lock()
	why := errBusy
	switch {
	case w.waitsForShard && w.inflightFull:
		why = errShardInflightLimit
	case w.waitsForShard:
		why = errShardConnLimit
	case p.mu.dialing > 0 || p.node != "":
		why = errDialing
	}
	waits := w.in != nil
	if waits {
		p.remove(w)
	}
	p.mu.Unlock()
	if waits {
		return why
	}
	t := <-w.granted // sent under mu with the removal, so it is there
	switch {
	case t.l == nil:
		return t.err
	case t.l.reused:
		p.put(t.l)
	default:
		p.offerNew(t.l)
	}
	return why
}

// recheckWaiters sends off those in line whose shard is served elsewhere by this table:
// there is nothing to wait for here. Who swaps the table calls it after that, and
// a waiter looks once more when it is in line: one of the two sees the other.
func (p *pool) recheckWaiters(t *Table) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, w := range p.waiters() {
		if w.in != nil && w.shardMoved(t, p.node) {
			p.remove(w)
			w.granted <- grant{err: errRouteChanged}
		}
	}
}

// shardMoved reports that the table does not send the waiter's shard to the node, or to
// the app if that is empty.
func (w *waiter) shardMoved(t *Table, node string) bool {
	if w.shard == noShard {
		return false
	}
	if w.shard >= t.Shards() {
		return true
	}
	r := t.Route(shardmap.Shard(w.shard))
	if node == "" {
		return r.Kind != Local
	}
	return r.Kind != Remote || r.Node != node
}

// failWaiters empties the line; without an error its people look again. With mu held.
func (p *pool) failWaiters(err error) {
	if err == nil {
		err = errRouteChanged
	}
	for _, w := range p.waiters() { // those parked first: nobody takes their place
		p.remove(w)
		w.granted <- grant{err: err}
	}
}
