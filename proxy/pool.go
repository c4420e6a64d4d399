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
// gets in line (line.go), for one that is given back or newly made; the pool makes
// them itself, few at once (dialing.go). A place that takes none is asked by one
// request at a time (gate.go).
type pool struct {
	node  string // the node at the other end; empty: the app
	dial  func(ctx context.Context) (*link, error)
	clock *coarse
	max   int // open at once; zero: any number
	// wary has each connection looked at before it is used again, by take or by Ask:
	// the other end may have sent more than its answer. Nodes do not.
	wary    bool
	maxIdle int // zero: all
	// life ends what is being dialed, and dialers are those at it.
	life    context.Context //nolint:containedctx // of the Server's whole life
	dialers *sync.WaitGroup
	gate    gate
	busy    busy
	// upgrades is who waits because as many sockets as may are coming back there at once.
	upgrades busy
	back     atomic.Int64 // by the clock, when one of them had its answer last
	streams  *streams
	tempo    *tempo
	// lane opens a lane to the node, nil if there is none at once; small counts the requests
	// under way that one would do for.
	lane func() *link
	// leg does so for a socket, and may wait for that.
	leg   func(ctx context.Context) *link
	small atomic.Int32

	mu struct {
		sync.Mutex
		idle    []*link  // used last is last
		lanes   []*link  // the same of lanes
		open    int      // idle, in use and being dialed
		streams int      // open in addition, see link.stream
		dialing int      // of them, being dialed
		laning  int      // of these, for sockets that take a lane
		flying  int      // of them, that sockets ask with for their next legs
		shakes  quickest // of handshakes for sockets
		flights quickest // of answers to those that ask by a lane
		window  window
		won     uint64 // counts connections that came about
		line    line   // who waits for a connection
		shares  shares
		boot    uint64 // of the node's present process; zero: not told
		nonce   uint64 // of that process, on whatever disk; zero: not told
		era     uint64 // counts renewals
		closed  bool
	}
}

// asks reports whether it matters to know soon that the place takes a request.
func (p *pool) asks() bool { return p.gate.shut.Load() || p.busy.any.Load() > 0 }

// wanted is what a connection is to be that is taken from a pool.
type wanted struct {
	shard int   // whom it counts for
	fresh bool  // it may carry what must not be sent twice: used just now, and looks alive
	most  int   // how many requests of the shard may be under way; zero: any number
	asks  bool  // who takes it looks at it before anything goes out, where that can be done
	by    *loop // one that this hears is as good as the newest; nil: none is
}

// take returns a connection without waiting, nil if there is none: then p.join
// gets in line.
func (p *pool) take(want wanted) *link {
	for {
		oldest := p.clock.now() - freshFor
		l := p.pop(&want, oldest)
		if l == nil {
			return nil
		}
		if want.asks && l.mayAsk() {
			return l
		}
		if (want.fresh || p.wary || l.since < oldest) && !l.Alive() {
			p.drop(l)
			continue
		}
		return l
	}
}

// pop takes the connection used last. With want.fresh, old ones stay where they are,
// for others.
func (p *pool) pop(want *wanted, oldest time.Duration) *link {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.gate.shut.Load() || p.mu.shares.full(want.shard) || p.mu.shares.crowded(want.shard, want.most) {
		return nil
	}
	if want.by != nil {
		p.prefer(want.by, oldest)
	}
	l := p.newest(want.fresh, oldest)
	if l != nil {
		p.mu.shares.charge(want.shard)
		l.place = want.shard
	}
	return l
}

// preferAmong is among how many that were used last one is looked for that a loop hears: to
// have another loop hear it takes two system calls.
const preferAmong = 64

// prefer makes the newest that the loop hears the newest of all, unless it is old. With mu
// held.
func (p *pool) prefer(by *loop, oldest time.Duration) {
	idle := p.mu.idle
	last := len(idle) - 1
	for i := last; i >= max(0, last-preferAmong) && idle[i].since >= oldest; i-- {
		if idle[i].by == by {
			idle[i], idle[last] = idle[last], idle[i]
			return
		}
	}
}

// newest is pop with mu held.
func (p *pool) newest(fresh bool, oldest time.Duration) *link {
	n := len(p.mu.idle)
	if n == 0 {
		return nil
	}
	l := p.mu.idle[n-1]
	if fresh && l.seat == nil && (!l.socket || l.since < oldest) {
		return nil
	}
	p.mu.idle[n-1] = nil
	p.mu.idle = p.mu.idle[:n-1]
	return l
}

// sparesFor reports whether connections that come back are for others than the waiter: a
// socket keeps what it gets, and a node takes any number.
func (p *pool) sparesFor(w *waiter) bool { return w.keeps && p.node != "" }

// newestFor is newest for a waiter.
func (p *pool) newestFor(w *waiter) *link {
	if w.unused || p.sparesFor(w) {
		return nil
	}
	return p.newest(w.fresh, p.clock.now()-freshFor)
}

// put takes back a connection that can carry another request.
func (p *pool) put(l *link) { p.putUsed(l, p.clock.now()) }

// putUsed is put of one whose other end has said its last word then: the client may have
// taken its time since.
func (p *pool) putUsed(l *link, last time.Duration) {
	if len(l.Buffered()) > 0 {
		p.drop(l) // what came behind the answer would be taken for the next one
		return
	}
	l.reused = true
	l.since = last
	p.mu.Lock()
	if l.stream {
		p.mu.Unlock()
		p.drop(l) // it gave its place up
		return
	}
	flew := l.flies
	p.vacate(l) // the next of the shard gets in line, behind others
	kept := p.keepLane(l) || l.lane == nil && p.give(l)
	if flew {
		p.want()
	}
	p.mu.Unlock()
	if !kept {
		p.drop(l)
	} else {
		p.gate.spare()
	}
}

// spare has the next one take its turn if the gate is shut and there are idle
// connections: who waits for one that is given back waits for all of them.
func (p *pool) spare() {
	if !p.gate.shut.Load() {
		return
	}
	p.mu.Lock()
	idle := len(p.mu.idle) > 0
	p.mu.Unlock()
	if idle {
		p.gate.spare()
	}
}

// give hands a connection to the first in line, or keeps it idle; false means
// that nobody wants it. With mu held.
func (p *pool) give(l *link) bool {
	if l.reused && p.stale(l) {
		return false
	}
	w := p.mu.line.head
	if l.lone {
		w = p.mu.line.lane()
	}
	if w != nil && (!l.reused || !p.sparesFor(w)) {
		p.mu.line.remove(w)
		l.place = w.place
		if l.flies = p.sparesFor(w); l.flies {
			p.mu.flying++
		}
		w.turn <- turn{l: l} // has room: who leaves a line is sent to once
		return true
	}
	if l.lone || p.mu.closed || p.maxIdle > 0 && len(p.mu.idle) >= p.maxIdle {
		return false
	}
	l.Idle()
	p.mu.idle = append(p.mu.idle, l)
	return true
}

// drop closes a connection and gives its place back.
func (p *pool) drop(l *link) {
	_ = l.Close() // nobody is interested any more
	l.Release()
	p.settle(l)
	p.free(l)
}

// free gives the place of a closed connection back.
func (p *pool) free(l *link) {
	l.unheard()
	p.mu.Lock()
	defer p.mu.Unlock()
	if l.stream {
		p.streams.open.Add(-1)
		p.mu.streams--
		return
	}
	p.mu.open--
	p.vacate(l)
	p.want()
}

// reap closes connections that have been idle for longer than age. With keepOne the newest
// idle connection stays.
func (p *pool) reap(age time.Duration, keepOne bool) {
	oldest := p.clock.now() - age
	p.mu.Lock()
	var newest *link
	if n := len(p.mu.idle); keepOne && n > 0 {
		newest = p.mu.idle[n-1]
	}
	old := p.takeIdle(func(l *link) bool { return l.since < oldest && l != newest })
	p.mu.Unlock()
	p.dropAll(old)
}

// connected reports whether a connection is open that the other end has not closed. It closes
// the idle ones that the other end has closed.
func (p *pool) connected() bool {
	p.dropIdle(func(l *link) bool { return !l.Alive() })
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mu.open-p.mu.dialing+p.mu.streams > 0
}

// dropIdle closes the idle connections and lanes that are to be.
func (p *pool) dropIdle(is func(l *link) bool) {
	p.mu.Lock()
	old := p.takeIdle(is)
	p.mu.Unlock()
	p.dropAll(old)
}

func (p *pool) dropAll(links []*link) {
	for _, l := range links {
		p.drop(l)
	}
}

// takeIdle takes idle connections and lanes out. With mu held.
func (p *pool) takeIdle(is func(l *link) bool) (old []*link) {
	for _, list := range []*[]*link{&p.mu.idle, &p.mu.lanes} {
		*list = slices.DeleteFunc(*list, func(l *link) bool {
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
	p.mu.era++
	old := p.takeIdle(func(*link) bool { return true })
	p.mu.Unlock()
	p.dropAll(old)
}

// forsake closes the idle connections to a process of the node that ends, or those to
// any that is not told: they would carry its last word, each to one more request.
func (p *pool) forsake(boot uint64) { p.dropIdle(func(l *link) bool { return l.boot == boot }) }

// follow has the pool know the present process of the node: idle connections to others, which
// are gone, are closed, and such a one that comes back too. What went by one would be taken for
// what its process ended with.
func (p *pool) follow(boot, nonce uint64) {
	p.mu.Lock()
	p.mu.boot, p.mu.nonce = boot, nonce
	old := p.takeIdle(p.outlived)
	p.mu.Unlock()
	p.dropAll(old)
}

// outlived reports whether a connection leads to a process of the node before the present one.
// An emptied disk counts boots from one again, so a boot tells only of a process that does not
// say its nonce, as one that has just begun. With mu held.
func (p *pool) outlived(l *link) bool {
	if p.mu.nonce != 0 && l.nonce != 0 {
		return l.nonce != p.mu.nonce
	}
	return p.mu.boot != 0 && l.boot != 0 && l.boot != p.mu.boot
}

// stale reports whether a connection is not to carry another request: it is from before the
// pool was renewed, or outlived. With mu held.
func (p *pool) stale(l *link) bool { return l.era != p.mu.era || p.outlived(l) }

// meet takes whoever takes a connection now for the present process, whatever was told of
// another, and takes out what is idle to that: the caller drops it. A lane says nothing: who
// took its trunk did so before. With mu held.
func (p *pool) meet(l *link) (old []*link) {
	if l.boot == 0 || l.lane != nil || p.mu.nonce != 0 && !p.outlived(l) {
		return nil
	}
	p.mu.boot, p.mu.nonce = l.boot, l.nonce
	return p.takeIdle(p.outlived)
}

// closeIdle closes all idle connections, and each other one when it comes back.
// Who is in line looks at the table again, and for another pool.
func (p *pool) closeIdle() {
	p.mu.Lock()
	p.mu.closed = true
	p.sendOff(nil)
	p.mu.Unlock()
	p.gate.open()
	p.renew()
}

// size returns the number of open connections.
func (p *pool) size() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mu.open
}
