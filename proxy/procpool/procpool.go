// Package procpool contains the pools of connections to the processes of an app that has one process for each
// key or shard (--exec).
//
// A request calls Pools.Acquire before it needs a connection, and Entry.Release after its attempt. In between, and
// while a connection of the pool is in use, the process is busy: Pools.CloseIfIdle does not stop it. This keeps the
// process of an upgraded connection or event stream running.
//
// The first dial of a pool starts the process. When the process has ended, Close removes its pool, and the next
// request creates another one. A pool whose process never accepted a connection is removed after its last request,
// so that requests with made-up keys use no memory.
//
// Any goroutine may call the methods.
package procpool

import (
	"context"
	"sync"
	"time"

	"shardway/internal/coarsetime"
	"shardway/proxy/connpool"
	"shardway/proxy/route"
	"shardway/shardmap"
)

// Target identifies a process: a key, or a shard if Key is empty.
type Target struct {
	Shard shardmap.Shard
	Key   string
}

// Options are the options of Pools.
type Options struct {
	// Dial connects to the process of a target, and starts it if necessary.
	Dial func(ctx context.Context, target Target) (*connpool.Conn, error)
	// Pool contains the options of all pools. The pools have separate limits.
	Pool  connpool.Options
	Clock *coarsetime.Clock
}

// Pools contains one pool for each process.
type Pools struct {
	options Options

	// mu protects the following field and the fields of all entries.
	mu      sync.Mutex
	entries map[Target]*Entry
}

// Entry is the pool of one process.
type Entry struct {
	Pool   *connpool.Pool
	pools  *Pools
	target Target

	// pools.mu protects the following fields.
	uses      int           // requests between Acquire and Release
	lastUse   time.Duration // end of the last use, by the exact clock
	connected bool          // a dial has succeeded
	removed   bool          // it is no longer in pools.entries
}

// New returns Pools without a pool.
func New(options Options) *Pools {
	return &Pools{options: options, entries: map[Target]*Entry{}}
}

// Acquire returns the pool of a target. The caller must call Release when its attempt has ended.
func (p *Pools) Acquire(target Target) *Entry {
	p.mu.Lock()
	defer p.mu.Unlock()
	entry := p.entries[target]
	if entry == nil {
		entry = &Entry{pools: p, target: target}
		options := p.options.Pool
		options.Dial = entry.dial
		entry.Pool = connpool.New(options)
		p.entries[target] = entry
	}
	entry.uses++
	return entry
}

// dial is Options.Dial of the pool.
func (e *Entry) dial(ctx context.Context) (*connpool.Conn, error) {
	conn, err := e.pools.options.Dial(ctx, e.target)
	if err == nil {
		e.pools.mu.Lock()
		e.connected = true
		e.pools.mu.Unlock()
	}
	return conn, err
}

// Release ends the use of a pool by one request.
func (e *Entry) Release() {
	p := e.pools
	p.mu.Lock()
	e.uses--
	e.lastUse = p.options.Clock.Exact()
	mustRemove := e.uses == 0 && !e.connected && !e.removed && e.Pool.InUse() == 0
	if mustRemove {
		p.removeLocked(e)
	}
	p.mu.Unlock()
	if mustRemove {
		e.Pool.Close()
	}
}

// removeLocked removes an entry. Its pool must then be closed.
func (p *Pools) removeLocked(e *Entry) {
	e.removed = true
	delete(p.entries, e.target)
}

// Idle returns how long the process of a target has been idle, or 0 while it is in use. ok is false if it has not
// been used since it started.
func (p *Pools) Idle(target Target) (idle time.Duration, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	entry := p.entries[target]
	if entry == nil {
		return 0, false
	}
	return p.idleLocked(entry), true
}

// idleLocked returns how long an entry has been idle.
func (p *Pools) idleLocked(e *Entry) time.Duration {
	now := p.options.Clock.Exact()
	if e.uses > 0 || e.Pool.InUse() > 0 {
		e.lastUse = now
	}
	return now - e.lastUse
}

// CloseIfIdle closes the pool of a target if it has been idle for at least the given time, and otherwise returns
// false. The target's next request creates another pool.
func (p *Pools) CloseIfIdle(target Target, idle time.Duration) bool {
	p.mu.Lock()
	entry := p.entries[target]
	if entry == nil {
		p.mu.Unlock()
		return true
	}
	isUsed := entry.uses > 0 || entry.Pool.InUse() > 0
	if isUsed || p.idleLocked(entry) < idle {
		p.mu.Unlock()
		return false
	}
	p.removeLocked(entry)
	p.mu.Unlock()
	entry.Pool.Close()
	return true
}

// Close closes the idle connections to the process of a target, which has ended or is about to be stopped.
// Connections in use are closed when they are returned. Requests that wait for a connection keep their pool.
func (p *Pools) Close(target Target) {
	p.mu.Lock()
	entry := p.entries[target]
	isUsed := entry != nil && entry.uses > 0
	if entry != nil && !isUsed {
		p.removeLocked(entry)
	}
	p.mu.Unlock()
	switch {
	case entry == nil:
	case isUsed:
		entry.Pool.Renew()
	default:
		entry.Pool.Close()
	}
}

// each calls visit for each pool, without the lock.
func (p *Pools) each(visit func(*connpool.Pool)) {
	p.mu.Lock()
	pools := make([]*connpool.Pool, 0, len(p.entries))
	for _, entry := range p.entries {
		pools = append(pools, entry.Pool)
	}
	p.mu.Unlock()
	for _, pool := range pools {
		visit(pool)
	}
}

// RecheckWaiters makes waiting requests check whether table still routes their shard to this node.
func (p *Pools) RecheckWaiters(table *route.Table) {
	p.each(func(pool *connpool.Pool) { pool.RecheckWaiters(table) })
}

// Renew closes the idle connections. Connections in use are closed after their request.
func (p *Pools) Renew() { p.each((*connpool.Pool).Renew) }

// CloseIdleOlderThan closes the connections that have been idle for longer than age.
func (p *Pools) CloseIdleOlderThan(age time.Duration) {
	p.each(func(pool *connpool.Pool) { pool.CloseIdleOlderThan(age, false) })
}

// CloseAll closes all pools.
func (p *Pools) CloseAll() { p.each((*connpool.Pool).Close) }

// OpenConns returns the number of open connections to all processes.
func (p *Pools) OpenConns() (open int) {
	p.each(func(pool *connpool.Pool) { open += pool.OpenConns() })
	return open
}
