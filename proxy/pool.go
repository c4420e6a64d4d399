package proxy

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// pool keeps the connections to one place, the app or a node. The one used last
// is used first, so that those not needed grow old and are closed. Who finds none
// gets in line (wait_queue.go), for one that is given back or newly made; the pool makes
// them itself, few at once (dialing.go). A place that takes none is asked by one
// request at a time (breaker.go).
type pool struct {
	node  string // the node at the other end; empty: the app
	dial  func(ctx context.Context) (*upstreamConn, error)
	clock *coarse
	max   int // open at once; zero: any number
	// checkBeforeReuse has each connection looked at before it is used again, by take or by Ask:
	// the other end may have sent more than its answer. Nodes do not.
	checkBeforeReuse bool
	maxIdle          int // zero: all
	// life ends what is being dialed, and dialers are those at it.
	life    context.Context //nolint:containedctx // of the Server's whole life
	dialers *sync.WaitGroup
	breaker breaker
	backoff shardBackoff
	// upgradeBackoff is who waits because as many sockets as may are coming back there at once.
	upgradeBackoff shardBackoff
	back           atomic.Int64 // by the clock, when one of them had its answer last
	streams        *streams
	pacer          *reconnectPacer
	// openStream opens a lane to the node, nil if there is none at once; small counts the requests
	// under way that one would do for.
	openStream func() *upstreamConn
	// openWebSocketStream does so for a socket, and may wait for that.
	openWebSocketStream func(ctx context.Context) *upstreamConn
	smallRequests       atomic.Int32

	mu struct {
		sync.Mutex
		idle             []*upstreamConn // used last is last
		idleStreams      []*upstreamConn // the same of lanes
		open             int             // idle, in use and being dialed
		longLived        int             // open in addition, see link.stream
		dialing          int             // of them, being dialed
		dialingStreams   int             // of these, for sockets that take a lane
		awaitingUpgrade  int             // of them, that sockets ask with for their next legs
		handshakes       latencyBaseline // of handshakes for sockets
		upgradeResponses latencyBaseline // of answers to those that ask by a lane
		slowStart        slowStart
		dialed           uint64    // counts connections that came about
		queue            waitQueue // who waits for a connection
		shardLimits      shardLimits
		boot             uint64 // of the node's present process; zero: not told
		nonce            uint64 // of that process, on whatever disk; zero: not told
		generation       uint64 // counts renewals
		closed           bool
	}
}

// wantsEarlyAccept reports whether it matters to know soon that the place takes a request.
func (p *pool) wantsEarlyAccept() bool {
	return p.breaker.tripped.Load() || p.backoff.waitingShards.Load() > 0
}

// connRequest is what a connection is to be that is taken from a pool.
type connRequest struct {
	shard         int        // whom it counts for
	fresh         bool       // it may carry what must not be sent twice: used just now, and looks alive
	maxInflight   int        // how many requests of the shard may be under way; zero: any number
	checkedOnSend bool       // who takes it looks at it before anything goes out, where that can be done
	loop          *eventLoop // one that this hears is as good as the newest; nil: none is
}

// get returns a connection without waiting, nil if there is none: then p.join
// gets in line.
func (p *pool) get(want connRequest) *upstreamConn {
	for {
		oldest := p.clock.now() - freshFor
		l := p.popIdle(&want, oldest)
		if l == nil {
			return nil
		}
		if want.checkedOnSend && l.canSendChecked() {
			return l
		}
		if (want.fresh || p.checkBeforeReuse || l.idleSince < oldest) && !l.Alive() {
			p.discard(l)
			continue
		}
		return l
	}
}

// popIdle takes the connection used last. With want.fresh, old ones stay where they are,
// for others.
func (p *pool) popIdle(want *connRequest, oldest time.Duration) *upstreamConn {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.breaker.tripped.Load() || p.mu.shardLimits.full(want.shard) || p.mu.shardLimits.inflightFull(want.shard, want.maxInflight) {
		return nil
	}
	if want.loop != nil {
		p.preferLoop(want.loop, oldest)
	}
	l := p.popNewest(want.fresh, oldest)
	if l != nil {
		p.mu.shardLimits.charge(want.shard)
		l.shard = want.shard
	}
	return l
}

// preferLoopScan is among how many that were used last one is looked for that a loop hears: to
// have another loop hear it takes two system calls.
const preferLoopScan = 64

// preferLoop makes the newest that the loop hears the newest of all, unless it is old. With mu
// held.
func (p *pool) preferLoop(by *eventLoop, oldest time.Duration) {
	idle := p.mu.idle
	last := len(idle) - 1
	for i := last; i >= max(0, last-preferLoopScan) && idle[i].idleSince >= oldest; i-- {
		if idle[i].loop == by {
			idle[i], idle[last] = idle[last], idle[i]
			return
		}
	}
}

// popNewest is pop with mu held.
func (p *pool) popNewest(fresh bool, oldest time.Duration) *upstreamConn {
	n := len(p.mu.idle)
	if n == 0 {
		return nil
	}
	l := p.mu.idle[n-1]
	if fresh && l.inproc == nil && (!l.checkable || l.idleSince < oldest) {
		return nil
	}
	p.mu.idle[n-1] = nil
	p.mu.idle = p.mu.idle[:n-1]
	return l
}

// skipsReused reports whether connections that come back are for others than the waiter: a
// socket keeps what it gets, and a node takes any number.
func (p *pool) skipsReused(w *waiter) bool { return w.forUpgrade && p.node != "" }

// popNewestFor is newest for a waiter.
func (p *pool) popNewestFor(w *waiter) *upstreamConn {
	if w.newOnly || p.skipsReused(w) {
		return nil
	}
	return p.popNewest(w.fresh, p.clock.now()-freshFor)
}

// put takes back a connection that can carry another request.
func (p *pool) put(l *upstreamConn) { p.putUsedAt(l, p.clock.now()) }

// putUsedAt is put of one whose other end has said its last word then: the client may have
// taken its time since.
func (p *pool) putUsedAt(l *upstreamConn, last time.Duration) {
	if len(l.Buffered()) > 0 {
		p.discard(l) // what came behind the answer would be taken for the next one
		return
	}
	l.reused = true
	l.idleSince = last
	p.mu.Lock()
	if l.longLived {
		p.mu.Unlock()
		p.discard(l) // it gave its place up
		return
	}
	flew := l.awaitingUpgrade
	p.releaseShard(l) // the next of the shard gets in line, behind others
	kept := p.putIdleStream(l) || l.mux == nil && p.assign(l)
	if flew {
		p.dialForWaiters()
	}
	p.mu.Unlock()
	if !kept {
		p.discard(l)
	} else {
		p.breaker.probeWithReused()
	}
}

// probeWithIdle has the next one take its turn if the gate is shut and there are idle
// connections: who waits for one that is given back waits for all of them.
func (p *pool) probeWithIdle() {
	if !p.breaker.tripped.Load() {
		return
	}
	p.mu.Lock()
	idle := len(p.mu.idle) > 0
	p.mu.Unlock()
	if idle {
		p.breaker.probeWithReused()
	}
}

// assign hands a connection to the first in line, or keeps it idle; false means
// that nobody wants it. With mu held.
func (p *pool) assign(l *upstreamConn) bool {
	if l.reused && p.isStale(l) {
		return false
	}
	w := p.mu.queue.head
	if l.singleUse {
		w = p.mu.queue.firstStreamWaiter()
	}
	if w != nil && (!l.reused || !p.skipsReused(w)) {
		p.mu.queue.remove(w)
		l.shard = w.shard
		if l.awaitingUpgrade = p.skipsReused(w); l.awaitingUpgrade {
			p.mu.awaitingUpgrade++
		}
		w.granted <- grant{l: l} // has room: who leaves a line is sent to once
		return true
	}
	if l.singleUse || p.mu.closed || p.maxIdle > 0 && len(p.mu.idle) >= p.maxIdle {
		return false
	}
	l.Idle()
	p.mu.idle = append(p.mu.idle, l)
	return true
}

// discard closes a connection and gives its place back.
func (p *pool) discard(l *upstreamConn) {
	_ = l.Close() // nobody is interested any more
	l.Release()
	p.markProven(l)
	p.releaseSlot(l)
}

// releaseSlot gives the place of a closed connection back.
func (p *pool) releaseSlot(l *upstreamConn) {
	l.leaveLoop()
	p.mu.Lock()
	defer p.mu.Unlock()
	if l.longLived {
		p.streams.open.Add(-1)
		p.mu.longLived--
		return
	}
	p.mu.open--
	p.releaseShard(l)
	p.dialForWaiters()
}

// closeIdleOlderThan closes connections that have been idle for longer than age. With keepOne the newest
// idle connection stays.
func (p *pool) closeIdleOlderThan(age time.Duration, keepOne bool) {
	oldest := p.clock.now() - age
	p.mu.Lock()
	var newest *upstreamConn
	if n := len(p.mu.idle); keepOne && n > 0 {
		newest = p.mu.idle[n-1]
	}
	old := p.removeIdle(func(l *upstreamConn) bool { return l.idleSince < oldest && l != newest })
	p.mu.Unlock()
	p.discardAll(old)
}

// hasOpenConn reports whether a connection is open that the other end has not closed. It closes
// the idle ones that the other end has closed.
func (p *pool) hasOpenConn() bool {
	p.discardIdle(func(l *upstreamConn) bool { return !l.Alive() })
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mu.open-p.mu.dialing+p.mu.longLived > 0
}

// discardIdle closes the idle connections and lanes that are to be.
func (p *pool) discardIdle(is func(l *upstreamConn) bool) {
	p.mu.Lock()
	old := p.removeIdle(is)
	p.mu.Unlock()
	p.discardAll(old)
}

func (p *pool) discardAll(links []*upstreamConn) {
	for _, l := range links {
		p.discard(l)
	}
}

// removeIdle takes idle connections and lanes out. With mu held.
func (p *pool) removeIdle(is func(l *upstreamConn) bool) (old []*upstreamConn) {
	for _, list := range []*[]*upstreamConn{&p.mu.idle, &p.mu.idleStreams} {
		*list = slices.DeleteFunc(*list, func(l *upstreamConn) bool {
			if !is(l) {
				return false
			}
			old = append(old, l)
			return true
		})
	}
	return old
}

// renew closes the idle connections. Those in use go on, and are closed as they come back.
func (p *pool) renew() {
	p.mu.Lock()
	p.mu.generation++
	old := p.removeIdle(func(*upstreamConn) bool { return true })
	p.mu.Unlock()
	p.discardAll(old)
}

// closeIdleTo closes the idle connections to a process of the node that ends, or those to
// any that is not told: they would carry its last word, each to one more request.
func (p *pool) closeIdleTo(boot uint64) {
	p.discardIdle(func(l *upstreamConn) bool { return l.boot == boot })
}

// setPeerProcess has the pool know the present process of the node: idle connections to others, which
// are gone, are closed, and such a one that comes back too. What went by one would be taken for
// what its process ended with.
func (p *pool) setPeerProcess(boot, nonce uint64) {
	p.mu.Lock()
	p.mu.boot, p.mu.nonce = boot, nonce
	old := p.removeIdle(p.isToFormerProcess)
	p.mu.Unlock()
	p.discardAll(old)
}

// isToFormerProcess reports whether a connection leads to a process of the node before the present one.
// An emptied disk counts boots from one again, so a boot tells only of a process that does not
// say its nonce, as one that has just begun. With mu held.
func (p *pool) isToFormerProcess(l *upstreamConn) bool {
	if p.mu.nonce != 0 && l.nonce != 0 {
		return l.nonce != p.mu.nonce
	}
	return p.mu.boot != 0 && l.boot != 0 && l.boot != p.mu.boot
}

// isStale reports whether a connection is not to carry another request: it is from before the
// pool was renewed, or outlived. With mu held.
func (p *pool) isStale(l *upstreamConn) bool {
	return l.generation != p.mu.generation || p.isToFormerProcess(l)
}

// adoptPeerProcess takes whoever takes a connection now for the present process, whatever was told of
// another, and takes out what is idle to that: the caller drops it. A lane says nothing: who
// took its trunk did so before. With mu held.
func (p *pool) adoptPeerProcess(l *upstreamConn) (old []*upstreamConn) {
	if l.boot == 0 || l.mux != nil || p.mu.nonce != 0 && !p.isToFormerProcess(l) {
		return nil
	}
	p.mu.boot, p.mu.nonce = l.boot, l.nonce
	return p.removeIdle(p.isToFormerProcess)
}

// close closes all idle connections, and each other one when it comes back.
// Who is in line looks at the table again, and for another pool.
func (p *pool) close() {
	p.mu.Lock()
	p.mu.closed = true
	p.failWaiters(nil)
	p.mu.Unlock()
	p.breaker.reset()
	p.renew()
}

// openConns returns the number of open connections.
func (p *pool) openConns() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mu.open
}
