package proxy

import (
	"sync"

	"shardway/proxy/forwarded"
)

// clientPool reuses the memory of closed client connections, some KiB each. For a client that
// sends one request on each connection, allocating that memory cost more than the request.
//
// A client may be reused only if no other goroutine can still hold it. Otherwise that goroutine
// could close the next connection, or see its shard. Other goroutines find clients only through
// the registry, and use them only during a visit of the registry. So the memory is free if no
// visit was in progress when the registry removed the client, which is almost always true. In
// the rare other case, the garbage collector frees the memory. It also frees clients that other
// goroutines may know for another reason: the connection has waited, was upgraded, carried an
// event stream or was closed by another goroutine.
type clientPool struct{ pool sync.Pool }

// take returns a client without a connection, or nil if there is none.
func (p *clientPool) take() *client {
	c, _ := p.pool.Get().(*client)
	return c
}

// put stores a client whose connection has ended, if it may be reused.
func (p *clientPool) put(c *client) {
	if c.isReusable() {
		c.reset()
		p.pool.Put(c)
	}
}

// isReusable reports whether no other goroutine can hold the client, whose connection has ended.
func (c *client) isReusable() bool {
	return c.unobserved && !c.escaped && c.ingress == "" && c.s.o.Handler == nil && !c.closing.Load() &&
		c.body.done == nil && c.admitted == nil && c.x.ticket == nil && c.disconnect.state.Load() == watchOff && !c.life.created()
}

// reset removes everything that belongs to the former connection, and keeps allocated buffers. The
// numbering of runs continues, because the sweep recognizes runs by their number.
func (c *client) reset() {
	c.x, c.from = exchange{}, forwarded.Client{}
	c.body.reset()
	c.body.free()
	c.life = lifetime{}
	c.slot.conn.Store(nil)
	c.slot.node.Store(nil)
	c.idle.Store(0)
	c.pollSince.Store(0)
	c.reused.Store(false)
	c.evicted.Store(false)
	c.canPark.Store(false)
	c.unobserved, c.parked, c.watcher = false, false, nil
	c.eventLoops, c.loopState, c.resumeAt, c.loopAttempt = nil, loopState{}, resumeNext, loopAttempt{}
	c.parkRequested.Store(false)
	c.conn.Clear()
}
