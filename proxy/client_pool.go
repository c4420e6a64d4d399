package proxy

import (
	"sync"

	"shardway/proxy/forwarded"
)

// clientPool reuses the memory of clients whose connections have ended, a few KiB each. For a
// client that sends one request per connection, allocating that memory costs more than the request
// itself.
//
// A client may be reused only if no other goroutine can still hold a reference to it. Otherwise
// that goroutine could close the next connection or read its shard. Other goroutines find clients
// only in Server.conns, and use them only during a visit (connset.Set.Visit). The memory is
// therefore free if no visit was in progress when the client was removed, which is almost always
// the case. Otherwise the garbage collector frees it.
//
// The exception is Server.permitlessRuns, whose result keeps references to clients. It reads only the
// slot of a client, which is atomic. The run number in the slot shows whether the run has ended.
//
// A client is also not reused if other goroutines may hold a reference for another reason: the
// connection has waited, was upgraded, carried an event stream or was closed by another goroutine.
type clientPool struct{ pool sync.Pool }

// take returns a client without a connection, or nil if the pool is empty.
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

// isReusable reports whether no other goroutine can hold a reference to the client after its
// connection has ended, apart from Server.permitlessRuns.
func (c *client) isReusable() bool {
	isFromClient := c.ingress == ""
	appMayKeepRequest := c.server.options.Handler != nil
	if !isFromClient || appMayKeepRequest {
		return false
	}
	isReferenced := !c.unobserved || c.escaped || c.closing.Load()
	return !isReferenced && !c.hasActiveParts()
}

// hasActiveParts reports whether a goroutine for the request body, for a disconnect or for the end
// of an admission may still use the client.
func (c *client) hasActiveParts() bool {
	bodyGoroutine := !c.body.HasNeverBeenSent()
	disconnectWatch := !c.disconnect.IsOff()
	hasWaited := c.exchange.ticket != nil || c.life.HasContext()
	return bodyGoroutine || disconnectWatch || hasWaited || c.admission.isActive()
}

// reset removes all state of the previous connection, and keeps allocated buffers. The run numbers
// continue, because the sweep and Server.permitlessRuns identify runs by their number.
func (c *client) reset() {
	c.exchange, c.clientAddr = exchange{}, forwarded.Client{}
	c.body.Reset()
	c.body.ReleaseBuffer()
	c.slot.Conn.Store(nil)
	c.slot.Node.Store(nil)
	c.connState = connState{}
	c.loopClient.Reset()
	c.conn.Clear()
}
