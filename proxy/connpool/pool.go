package connpool

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"shardway/internal/coarsetime"
	"shardway/proxy/backoff"
	"shardway/proxy/wsession"
)

// Pool contains the connections to one destination: the app, or another node.
//
// The most recently used connection is reused first, so that surplus connections age and are
// closed. A request that finds no idle connection joins the wait queue (wait_queue.go). It receives
// a connection that another request returns, or one that the pool dials. The pool dials a few
// connections at a time (dialing.go). While the destination accepts no connections, the circuit
// breaker lets one request at a time through (backoff.Breaker).
type Pool struct {
	opts Options
	// Breaker is tripped while the destination accepts no connections.
	Breaker backoff.Breaker
	// Backoff holds back requests of shards whose requests the destination has refused.
	Backoff backoff.ByShard
	// UpgradeBackoff holds back resumed WebSockets while the destination accepts no more upgrades.
	UpgradeBackoff backoff.ByShard
	// SmallRequests counts the requests in progress that are small enough for a multiplexed stream.
	SmallRequests atomic.Int32
	lastResumed   atomic.Int64 // when a resumed WebSocket last received its response, by the clock

	mu struct {
		sync.Mutex

		idle        idleConns
		open        int         // connections that are idle, in use or being dialed
		longLived   int         // connections that Detach has removed from open
		generation  uint64      // number of calls of Renew
		closed      bool        // Close was called
		peerProcess peerProcess // current process of the node
		dials       dialCounts
		queue       waitQueue   // requests that wait for a connection
		shardLimits shardLimits // also contains the requests that wait for a limit of their shard
		upgrades    upgradeTracker
	}
}

// Options are the options of a pool.
type Options struct {
	// Node is the destination node. Empty means the app.
	Node string
	// Instance is the destination app instance. It matters only if Node is empty.
	Instance uint8
	// Dial opens a connection to the destination.
	Dial func(ctx context.Context) (*Conn, error)
	// OpenStream opens a stream of a multiplexed session with the node. It returns nil if that
	// would block. It is required for pools of nodes.
	OpenStream func() *Conn
	// OpenWebSocketStream opens a stream for a WebSocket, and may block to do so. It returns nil if
	// there is none. It is required for pools of nodes.
	OpenWebSocketStream func(ctx context.Context) *Conn
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
	// CheckBeforeReuse makes Get or h1.Conn.SendChecked check each connection before it is reused,
	// because an app may have sent more than its response. Nodes never do.
	CheckBeforeReuse bool
	// LongLived limits the long-lived connections of all pools that share it.
	LongLived *LongLivedLimit
	// Pacer limits how many WebSockets are resumed at the same time.
	Pacer *wsession.ReconnectPacer
	// Queues are woken when waiting requests should try again.
	Queues backoff.Queues
}

// New returns a pool without connections.
func New(o Options) *Pool {
	p := &Pool{opts: o}
	p.Breaker.SetQueues(o.Queues)
	p.Backoff.SetQueues(o.Queues)
	p.UpgradeBackoff.SetQueues(o.Queues)
	if o.Node == "" {
		p.mu.dials.slowStart.limit = initialNewConns
		p.mu.shardLimits.countsConns, p.mu.shardLimits.maxConns = true, o.MaxShardConns
	}
	p.mu.queue.upgradesLast = o.Node != ""
	p.mu.upgrades.pacer = o.Pacer
	return p
}

// Node returns the node that the connections lead to; empty means the app.
func (p *Pool) Node() string { return p.opts.Node }

// IsForNode reports whether the destination is another node, rather than the app.
func (p *Pool) IsForNode() bool { return p.opts.Node != "" }

// WantsEarlyAccept reports whether other requests are waiting to learn that the destination accepts
// requests again, so that the pool should be told early.
func (p *Pool) WantsEarlyAccept() bool {
	return p.Breaker.IsTripped() || p.Backoff.HasWaiting()
}

// Requirements describes the connection that a request needs.
type Requirements struct {
	Shard         int       // shard for which the connection counts, or NoShard
	RequireRecent bool      // the request must not be sent twice: the connection must have been used recently and look alive
	MaxInflight   int       // limit of requests in progress for the shard; zero means no limit
	CheckedOnSend bool      // the caller checks the connection when it sends, if that is possible
	Loop          EventLoop // prefer a connection that is registered with this event loop; nil means no preference
}

// Get returns an idle connection without blocking. It returns nil if there is none; the caller can
// then wait for one with Join.
func (p *Pool) Get(want Requirements) *Conn {
	for {
		oldest := p.opts.Clock.Now() - recentFor
		conn := p.popIdle(&want, oldest)
		if conn == nil {
			return nil
		}
		if want.CheckedOnSend && conn.CanBeCheckedOnSend() {
			return conn
		}
		mustCheck := want.RequireRecent || p.opts.CheckBeforeReuse || conn.idleSince < oldest
		if !mustCheck || conn.IsAlive() {
			return conn
		}
		p.Discard(conn)
	}
}

// popIdle removes and returns the most recently used idle connection, and charges it to the shard.
// It returns nil if there is none or if a limit of the shard is reached. If want.RequireRecent is set and the
// connection was last used before oldest, popIdle leaves it for other requests and returns nil.
func (p *Pool) popIdle(want *Requirements, oldest time.Duration) *Conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	limits := &p.mu.shardLimits
	if p.Breaker.IsTripped() || limits.isFull(want.Shard) || limits.isInflightFull(want.Shard, want.MaxInflight) {
		return nil
	}
	if want.Loop != nil {
		p.mu.idle.preferLoop(want.Loop, oldest)
	}
	conn := p.mu.idle.popNewest(want.RequireRecent, oldest)
	if conn != nil {
		limits.charge(want.Shard)
		conn.shard = want.Shard
	}
	return conn
}

// skipsReused reports whether waiter must not receive a returned connection. A resumed WebSocket
// occupies its connection, so it would take connections away from requests. It gets a new one,
// because a node accepts any number of connections.
func (p *Pool) skipsReused(waiter *Waiter) bool { return waiter.ForUpgrade && p.IsForNode() }

// popNewestFor returns an idle connection that suits the waiter, or nil. The caller holds p.mu.
func (p *Pool) popNewestFor(waiter *Waiter) *Conn {
	if waiter.RequireNew || p.skipsReused(waiter) {
		return nil
	}
	return p.mu.idle.popNewest(waiter.RequireRecent, p.opts.Clock.Now()-recentFor)
}

// Put returns a connection that can carry another request to the pool.
func (p *Pool) Put(conn *Conn) { p.PutUsedAt(conn, p.opts.Clock.Now()) }

// PutUsedAt is like Put, for a connection whose peer finished its response at lastUsed, by the
// clock of the pool. The client may have taken longer to read that response.
func (p *Pool) PutUsedAt(conn *Conn, lastUsed time.Duration) {
	if len(conn.Buffered()) > 0 {
		p.Discard(conn) // the next request would read the extra bytes as its response
		return
	}
	conn.Reused = true
	conn.idleSince = lastUsed
	p.mu.Lock()
	if conn.longLived {
		p.mu.Unlock()
		p.Discard(conn) // Detach has removed it from the number of pooled connections
		return
	}
	wasAwaitingUpgrade := conn.awaitingUpgrade
	p.releaseShard(conn) // this may move the next request of the shard into the queue
	pooled := p.putIdleStream(conn) || conn.Mux == nil && p.assign(conn)
	if wasAwaitingUpgrade {
		p.dialForWaiters() // releaseShard has reduced the number of such connections, which limits dials
	}
	p.mu.Unlock()
	if !pooled {
		p.Discard(conn)
	} else {
		p.Breaker.ProbeWithReused()
	}
}

// ProbeWithIdle lets the next request through a tripped breaker if there are idle connections.
// A request that waits for a returned connection can use any of them.
func (p *Pool) ProbeWithIdle() {
	if !p.Breaker.IsTripped() {
		return
	}
	p.mu.Lock()
	idle := len(p.mu.idle.conns) > 0
	p.mu.Unlock()
	if idle {
		p.Breaker.ProbeWithReused()
	}
}

// assign gives conn to the first waiter that can use it, and otherwise keeps it idle. If it returns
// false, the caller must discard conn. The caller must hold p.mu.
func (p *Pool) assign(conn *Conn) bool {
	if conn.Reused && p.isStale(conn) {
		return false
	}
	waiter := p.mu.queue.waiters.First()
	if conn.SingleUse {
		waiter = p.mu.queue.firstStreamWaiter()
	}
	if waiter != nil && (!conn.Reused || !p.skipsReused(waiter)) {
		p.grantConn(waiter, conn)
		return true
	}
	idleIsFull := p.opts.MaxIdle > 0 && len(p.mu.idle.conns) >= p.opts.MaxIdle
	if conn.SingleUse || p.mu.closed || idleIsFull {
		return false
	}
	conn.ReleaseEmptyBuffers()
	p.mu.idle.conns = append(p.mu.idle.conns, conn)
	return true
}

// grantConn removes a waiter from the queue of the pool and sends it conn. The caller must hold p.mu.
func (p *Pool) grantConn(waiter *Waiter, conn *Conn) {
	p.mu.queue.remove(waiter)
	conn.shard = waiter.Shard
	if p.skipsReused(waiter) { // the waiter is a resumed WebSocket, and the destination is a node
		p.mu.upgrades.add(conn)
	}
	waiter.granted <- grant{conn: conn} // does not block, because the channel has a buffer for one grant
}

// Discard closes a connection and frees its slot.
func (p *Pool) Discard(conn *Conn) {
	_ = conn.Close() // the connection is unused, so an error does not matter
	conn.ReleaseBuffers()
	p.MarkProven(conn)
	p.ReleaseSlot(conn)
}

// ReleaseSlot frees the slot of a closed connection, so that the pool can dial another one.
func (p *Pool) ReleaseSlot(conn *Conn) {
	conn.LeaveLoop()
	p.mu.Lock()
	defer p.mu.Unlock()
	if conn.longLived {
		p.opts.LongLived.open.Add(-1)
		p.mu.longLived--
		return
	}
	p.mu.open--
	p.releaseShard(conn)
	p.dialForWaiters()
}

// CloseIdleOlderThan closes connections that have been idle for longer than age. If keepOne is set,
// it keeps the most recently used connection.
func (p *Pool) CloseIdleOlderThan(age time.Duration, keepOne bool) {
	oldest := p.opts.Clock.Now() - age
	p.mu.Lock()
	var newest *Conn
	if n := len(p.mu.idle.conns); keepOne && n > 0 {
		newest = p.mu.idle.conns[n-1]
	}
	old := p.mu.idle.removeMatching(func(conn *Conn) bool { return conn.idleSince < oldest && conn != newest })
	p.mu.Unlock()
	p.discardAll(old)
}

// HasOpenConn reports whether at least one connection is open. It first discards the idle
// connections that the peer has closed.
func (p *Pool) HasOpenConn() bool {
	p.discardIdle(func(conn *Conn) bool { return !conn.IsAlive() })
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mu.open-p.mu.dials.inProgress+p.mu.longLived > 0
}

// EachIdle calls visit for each idle connection and stream, until visit returns false. visit must
// not call the pool.
func (p *Pool) EachIdle(visit func(*Conn) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, idle := range [][]*Conn{p.mu.idle.conns, p.mu.idle.streams} {
		for _, conn := range idle {
			if !visit(conn) {
				return
			}
		}
	}
}

// discardIdle discards the idle connections and streams that match.
func (p *Pool) discardIdle(match func(conn *Conn) bool) {
	p.mu.Lock()
	old := p.mu.idle.removeMatching(match)
	p.mu.Unlock()
	p.discardAll(old)
}

// discardAll discards connections that are no longer idle. The caller must not hold p.mu.
func (p *Pool) discardAll(conns []*Conn) {
	for _, conn := range conns {
		p.Discard(conn)
	}
}

// Renew closes the idle connections. Connections in use are closed when they are returned.
func (p *Pool) Renew() {
	p.mu.Lock()
	p.mu.generation++
	old := p.mu.idle.removeMatching(func(*Conn) bool { return true })
	p.mu.Unlock()
	p.discardAll(old)
}

// CloseIdleTo closes the idle connections to the stopping process with the given boot number. Zero
// selects the connections whose process is unknown. If they stayed open, each of them would cost
// one more request that the stopping process refuses.
func (p *Pool) CloseIdleTo(boot uint64) {
	p.discardIdle(func(conn *Conn) bool { return conn.Boot == boot })
}

// setPeerProcess sets the current process of the node. It closes idle connections to previous
// processes. Connections in use are closed when they are returned. Otherwise the failure of such a
// connection would be blamed on the current process.
func (p *Pool) setPeerProcess(boot, nonce uint64) {
	p.mu.Lock()
	p.mu.peerProcess = peerProcess{boot: boot, nonce: nonce}
	old := p.mu.idle.removeMatching(p.mu.peerProcess.differsFrom)
	p.mu.Unlock()
	p.discardAll(old)
}

// isStale reports whether conn must not carry another request, because the pool was renewed after
// conn was dialed or because conn leads to a previous process. The caller must hold p.mu.
func (p *Pool) isStale(conn *Conn) bool {
	return conn.generation != p.mu.generation || p.mu.peerProcess.differsFrom(conn)
}

// Close closes all idle connections. Connections in use are closed when they are returned. Waiting
// requests look up their route again and then use another pool.
func (p *Pool) Close() {
	p.mu.Lock()
	p.mu.closed = true
	p.failWaiters(nil)
	p.mu.Unlock()
	p.Breaker.Reset()
	p.Renew()
}

// InUse returns the number of connections that requests, upgraded connections and streams use.
func (p *Pool) InUse() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mu.open - p.mu.dials.inProgress - len(p.mu.idle.conns) + p.mu.longLived
}

// OpenConns returns the number of open connections, including those that are being dialed.
func (p *Pool) OpenConns() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mu.open
}
