package proxy

import "sync"

// clientPool keeps the memory of clients' connections that are over, some KiB each, for the
// next ones: a client that asks once and leaves cost more in that than in its request.
//
// Nobody may still have such a connection, who would close the next one in its place, or
// tell its shard. Others find a connection by the registry alone, and look at what they
// found only within its visit: so its memory is free if no visit was under way when the
// registry let it go. That is so nearly always; if not, the garbage collector has it. What
// did anything by which others may know it, it has too: a connection that waited, was
// upgraded, carried an event stream or was ended from outside.
type clientPool struct{ pool sync.Pool }

// take returns a client that has no connection; nil: there is none.
func (p *clientPool) take() *client {
	c, _ := p.pool.Get().(*client)
	return c
}

// put takes a client whose connection is over, if nobody else may have it.
func (p *clientPool) put(c *client) {
	if c.isReusable() {
		c.reset()
		p.pool.Put(c)
	}
}

// isReusable reports whether nobody has the client any more, whose connection is over.
func (c *client) isReusable() bool {
	return c.unobserved && !c.escaped && c.ingress == "" && c.s.o.Handler == nil && !c.down.Load() &&
		c.up.done == nil && c.admitted == nil && c.x.ticket == nil && c.gone.state.Load() == watchOff && !c.life.asked()
}

// reset lets go of what belonged to the connection, but for memory that the next one
// uses. The numbers of runs go on, and so does what the sweep knows by them.
func (c *client) reset() {
	c.x, c.from = exchange{}, origin{}
	c.up.reset()
	c.up.free()
	c.life = lifetime{}
	c.slot.link.Store(nil)
	c.slot.node.Store(nil)
	c.idle.Store(0)
	c.pollSince.Store(0)
	c.reused.Store(false)
	c.shed.Store(false)
	c.canPark.Store(false)
	c.unobserved, c.parked, c.watcher = false, false, nil
	c.eventLoops, c.loopState, c.resumeAt, c.loopAttempt = nil, loopState{}, resumeNext, loopAttempt{}
	c.parkRequested.Store(false)
	c.h.Forget()
}
