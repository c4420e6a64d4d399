package proxy

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"shardway/internal/coarsetime"
	"shardway/proxy/backoff"
	"shardway/proxy/wsession"
)

// pool contains the connections to one destination: the app, or another node.
//
// The connection that was used last is used first, so that surplus connections become old and are
// closed. A request that finds no idle connection joins the wait queue (wait_queue.go). It
// receives a connection that another request returns, or one that the pool dials. The pool dials a
// few connections at a time (dialing.go). While the destination accepts no connections, the
// circuit breaker lets one request at a time through (backoff.Breaker).
type pool struct {
	opts    poolOptions
	breaker backoff.Breaker
	backoff backoff.ByShard
	// upgradeBackoff holds back resumed WebSockets while the destination has no free place for
	// upgrades.
	upgradeBackoff backoff.ByShard
	// smallRequests counts the requests in progress that are small enough for a multiplexed stream.
	smallRequests atomic.Int32
	lastResumed   atomic.Int64 // when a resumed WebSocket last received its response, by the clock

	mu struct {
		sync.Mutex
		idle             []*upstreamConn          // in order of last use; the most recently used connection is last
		idleStreams      []*upstreamConn          // the same for streams of multiplexed sessions
		open             int                      // connections that are idle, in use or being dialed
		longLived        int                      // open in addition to open; see upstreamConn.longLived
		dialing          int                      // of open, connections that are being dialed
		dialingStreams   int                      // of dialing, streams for WebSockets
		awaitingUpgrade  int                      // of open, connections on which a resumed WebSocket awaits its upgrade response
		handshakes       wsession.LatencyBaseline // of handshakes for WebSockets
		upgradeResponses wsession.LatencyBaseline // of upgrade responses over streams
		slowStart        slowStart
		dialed           uint64    // number of successful dials
		queue            waitQueue // requests that wait for a connection
		shardLimits      shardLimits
		boot             uint64 // boot number of the node's present process; zero means unknown
		nonce            uint64 // nonce of that process, which is unique even if the node's data directory was emptied; zero means unknown
		generation       uint64 // number of calls of renew
		closed           bool
	}
}

// poolOptions are the options of a pool.
type poolOptions struct {
	// Node is the node at the other end. Empty means the app.
	Node string
	// Dial opens a connection to the destination.
	Dial func(ctx context.Context) (*upstreamConn, error)
	// OpenStream opens a stream of a multiplexed session with the node. It returns nil if that would
	// block. Pools of nodes need it.
	OpenStream func() *upstreamConn
	// OpenWebSocketStream opens a stream for a WebSocket, and may block to do so. It returns nil if
	// there is none. Pools of nodes need it.
	OpenWebSocketStream func(ctx context.Context) *upstreamConn
	// Life ends all dials in progress, and Dialers counts them.
	Life    context.Context //nolint:containedctx // lives as long as the pool
	Dialers *sync.WaitGroup
	// Clock measures how long connections are idle.
	Clock *coarsetime.Clock
	// MaxConns limits the open connections. Zero means no limit.
	MaxConns int
	// MaxIdle limits the idle connections. Zero means no limit.
	MaxIdle int
	// MaxShardConns limits the connections to the app that the requests of one shard use. Zero means
	// no limit.
	MaxShardConns int
	// CheckBeforeReuse means that each connection is checked before it is reused, by get or by
	// SendChecked: an app may have sent more than its response. Nodes do not do that.
	CheckBeforeReuse bool
	// Streams limits the long-lived connections of all pools that share it.
	Streams *streams
	// Pacer limits how many WebSockets are resumed at the same time.
	Pacer *wsession.ReconnectPacer
	// Queues are woken when waiting requests should try again.
	Queues backoff.Queues
}

// newPool returns a pool without connections.
func newPool(o poolOptions) *pool {
	p := &pool{opts: o}
	p.breaker.SetQueues(o.Queues)
	p.backoff.SetQueues(o.Queues)
	p.upgradeBackoff.SetQueues(o.Queues)
	if o.Node == "" {
		p.mu.slowStart.size = firstWindow
		p.mu.shardLimits.counts, p.mu.shardLimits.maxConns = true, o.MaxShardConns
	}
	p.mu.queue.upgradesLast = o.Node != ""
	return p
}

// isForNode reports whether the destination is another node, rather than the app.
func (p *pool) isForNode() bool { return p.opts.Node != "" }

// wantsEarlyAccept reports whether the pool should learn early that the destination accepts a
// request, because other requests wait for that.
func (p *pool) wantsEarlyAccept() bool {
	return p.breaker.IsTripped() || p.backoff.HasWaiting()
}

// connRequest describes the connection that a request needs.
type connRequest struct {
	shard         int          // shard for which the connection counts, or noShard
	fresh         bool         // the request must not be sent twice: the connection must be recently used and look alive
	maxInflight   int          // limit of requests in progress for the shard; zero means no limit
	checkedOnSend bool         // the caller checks the connection when it sends, if that is possible
	loop          eventLoopRef // prefer a connection that is registered with this event loop; nil means no preference
}

// get returns an idle connection without blocking. It returns nil if there is none; the caller can
// then wait for one with join.
func (p *pool) get(want connRequest) *upstreamConn {
	for {
		oldest := p.opts.Clock.Now() - freshFor
		l := p.popIdle(&want, oldest)
		if l == nil {
			return nil
		}
		if want.checkedOnSend && l.canSendChecked() {
			return l
		}
		if (want.fresh || p.opts.CheckBeforeReuse || l.idleSince < oldest) && !l.IsAlive() {
			p.discard(l)
			continue
		}
		return l
	}
}

// popIdle removes and returns the most recently used idle connection. If want.fresh is set and that
// connection has been idle for too long, popIdle leaves it for other requests and returns nil.
func (p *pool) popIdle(want *connRequest, oldest time.Duration) *upstreamConn {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.breaker.IsTripped() || p.mu.shardLimits.isFull(want.shard) || p.mu.shardLimits.isInflightFull(want.shard, want.maxInflight) {
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

// preferLoopScan is the number of recently used connections among which preferLoop searches. A
// connection that is registered with the caller's event loop is preferred, because moving a
// connection to another event loop costs two system calls.
const preferLoopScan = 64

// preferLoop moves the most recently used connection of the event loop to the end of the idle
// list, unless it is older than oldest. The caller holds p.mu.
func (p *pool) preferLoop(l eventLoopRef, oldest time.Duration) {
	idle := p.mu.idle
	last := len(idle) - 1
	for i := last; i >= max(0, last-preferLoopScan) && idle[i].idleSince >= oldest; i-- {
		if idle[i].loop == l {
			idle[i], idle[last] = idle[last], idle[i]
			return
		}
	}
}

// popNewest removes and returns the idle connection that was used last, or nil if there is none.
// With fresh, it returns only a connection that can be checked and was used after oldest. The
// caller holds p.mu.
func (p *pool) popNewest(fresh bool, oldest time.Duration) *upstreamConn {
	n := len(p.mu.idle)
	if n == 0 {
		return nil
	}
	l := p.mu.idle[n-1]
	if fresh && !l.inProcess && (!l.checkable || l.idleSince < oldest) {
		return nil
	}
	p.mu.idle[n-1] = nil
	p.mu.idle = p.mu.idle[:n-1]
	return l
}

// skipsReused reports whether w must not receive a returned connection. A resumed WebSocket
// occupies its connection, so it would take connections away from requests. It gets a new one,
// because a node accepts any number of connections.
func (p *pool) skipsReused(w *waiter) bool { return w.forUpgrade && p.isForNode() }

// popNewestFor returns an idle connection that suits the waiter, or nil. The caller holds p.mu.
func (p *pool) popNewestFor(w *waiter) *upstreamConn {
	if w.newOnly || p.skipsReused(w) {
		return nil
	}
	return p.popNewest(w.fresh, p.opts.Clock.Now()-freshFor)
}

// put returns a connection that can carry another request to the pool.
func (p *pool) put(l *upstreamConn) { p.putUsedAt(l, p.opts.Clock.Now()) }

// putUsedAt is like put, for a connection whose peer finished its response at the time last. The
// client may have needed more time to read that response.
func (p *pool) putUsedAt(l *upstreamConn, last time.Duration) {
	if len(l.Buffered()) > 0 {
		p.discard(l) // the next request would read the extra bytes as its response
		return
	}
	l.reused = true
	l.idleSince = last
	p.mu.Lock()
	if l.longLived {
		p.mu.Unlock()
		p.discard(l) // detach has removed it from the number of pooled connections
		return
	}
	awaited := l.awaitingUpgrade
	p.releaseShard(l) // this may move the next request of the shard into the queue
	pooled := p.putIdleStream(l) || l.mux == nil && p.assign(l)
	if awaited {
		p.dialForWaiters()
	}
	p.mu.Unlock()
	if !pooled {
		p.discard(l)
	} else {
		p.breaker.ProbeWithReused()
	}
}

// probeWithIdle lets the next request through a tripped breaker if there are idle connections.
// A request that waits for a returned connection can use any of them.
func (p *pool) probeWithIdle() {
	if !p.breaker.IsTripped() {
		return
	}
	p.mu.Lock()
	idle := len(p.mu.idle) > 0
	p.mu.Unlock()
	if idle {
		p.breaker.ProbeWithReused()
	}
}

// assign gives l to the first waiter that can use it, and otherwise keeps it idle. If it returns
// false, the caller must discard l. The caller must hold p.mu.
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
		w.granted <- grant{conn: l} // does not block, because the channel has a buffer for one grant
		return true
	}
	if l.singleUse || p.mu.closed || p.opts.MaxIdle > 0 && len(p.mu.idle) >= p.opts.MaxIdle {
		return false
	}
	l.ReleaseEmptyBuffers()
	p.mu.idle = append(p.mu.idle, l)
	return true
}

// discard closes a connection and frees its slot.
func (p *pool) discard(l *upstreamConn) {
	_ = l.Close() // the connection is unused, so an error does not matter
	l.ReleaseBuffers()
	p.markProven(l)
	p.releaseSlot(l)
}

// releaseSlot frees the slot of a closed connection, so that the pool can dial another one.
func (p *pool) releaseSlot(l *upstreamConn) {
	l.leaveLoop()
	p.mu.Lock()
	defer p.mu.Unlock()
	if l.longLived {
		p.opts.Streams.open.Add(-1)
		p.mu.longLived--
		return
	}
	p.mu.open--
	p.releaseShard(l)
	p.dialForWaiters()
}

// closeIdleOlderThan closes connections that have been idle for longer than age. With keepOne it
// keeps the most recently used connection.
func (p *pool) closeIdleOlderThan(age time.Duration, keepOne bool) {
	oldest := p.opts.Clock.Now() - age
	p.mu.Lock()
	var newest *upstreamConn
	if n := len(p.mu.idle); keepOne && n > 0 {
		newest = p.mu.idle[n-1]
	}
	old := p.removeIdle(func(l *upstreamConn) bool { return l.idleSince < oldest && l != newest })
	p.mu.Unlock()
	p.discardAll(old)
}

// hasOpenConn reports whether at least one connection is open. It first discards the idle
// connections that the peer has closed.
func (p *pool) hasOpenConn() bool {
	p.discardIdle(func(l *upstreamConn) bool { return !l.IsAlive() })
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mu.open-p.mu.dialing+p.mu.longLived > 0
}

// eachIdle calls visit for each idle connection and stream, until visit returns false. visit must
// not call the pool.
func (p *pool) eachIdle(visit func(*upstreamConn) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, idle := range [][]*upstreamConn{p.mu.idle, p.mu.idleStreams} {
		for _, l := range idle {
			if !visit(l) {
				return
			}
		}
	}
}

// discardIdle discards the idle connections and streams that match.
func (p *pool) discardIdle(match func(l *upstreamConn) bool) {
	p.mu.Lock()
	old := p.removeIdle(match)
	p.mu.Unlock()
	p.discardAll(old)
}

func (p *pool) discardAll(links []*upstreamConn) {
	for _, l := range links {
		p.discard(l)
	}
}

// removeIdle removes the idle connections and streams that match, and returns them. The caller
// holds p.mu, and discards them after it has released p.mu.
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

// renew closes the idle connections. Connections in use are closed when they are returned.
func (p *pool) renew() {
	p.mu.Lock()
	p.mu.generation++
	old := p.removeIdle(func(*upstreamConn) bool { return true })
	p.mu.Unlock()
	p.discardAll(old)
}

// closeIdleTo closes the idle connections to the process boot, which is stopping. boot zero selects
// the connections whose process is unknown. If they stayed open, each of them would cause one more
// request to be refused by the stopping process.
func (p *pool) closeIdleTo(boot uint64) {
	p.discardIdle(func(l *upstreamConn) bool { return l.boot == boot })
}

// setPeerProcess sets the present process of the node. It closes idle connections to previous
// processes. Connections in use are closed when they are returned. Otherwise a failure of such a
// connection would be attributed to the present process.
func (p *pool) setPeerProcess(boot, nonce uint64) {
	p.mu.Lock()
	p.mu.boot, p.mu.nonce = boot, nonce
	old := p.removeIdle(p.isToFormerProcess)
	p.mu.Unlock()
	p.discardAll(old)
}

// isToFormerProcess reports whether l leads to a previous process of the node. Nonces are compared
// if both are known, because a node with an emptied data directory counts its boot numbers from one
// again. Right after the start of a process its nonce may be unknown; then the boot numbers are
// compared. The caller must hold p.mu.
func (p *pool) isToFormerProcess(l *upstreamConn) bool {
	if p.mu.nonce != 0 && l.nonce != 0 {
		return l.nonce != p.mu.nonce
	}
	return p.mu.boot != 0 && l.boot != 0 && l.boot != p.mu.boot
}

// isStale reports whether l must not carry another request. That is the case if the pool was
// renewed after l was dialed, or if l leads to a previous process. The caller must hold p.mu.
func (p *pool) isStale(l *upstreamConn) bool {
	return l.generation != p.mu.generation || p.isToFormerProcess(l)
}

// adoptPeerProcess records the process that has accepted l as the present one, even if another one
// was reported before. It ignores a multiplexed stream, because its session may have been accepted
// by a previous process. It returns the idle connections to previous processes; the caller must
// discard them after it has released p.mu. The caller must hold p.mu.
func (p *pool) adoptPeerProcess(l *upstreamConn) (old []*upstreamConn) {
	if l.boot == 0 || l.mux != nil || p.mu.nonce != 0 && !p.isToFormerProcess(l) {
		return nil
	}
	p.mu.boot, p.mu.nonce = l.boot, l.nonce
	return p.removeIdle(p.isToFormerProcess)
}

// close closes all idle connections. Connections in use are closed when they are returned. Waiting
// requests look up their route again, and then use another pool.
func (p *pool) close() {
	p.mu.Lock()
	p.mu.closed = true
	p.failWaiters(nil)
	p.mu.Unlock()
	p.breaker.Reset()
	p.renew()
}

// openConns returns the number of open connections, including those that are being dialed.
func (p *pool) openConns() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mu.open
}
