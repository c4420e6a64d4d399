package proxy

import "shardway/proxy/cause"

// closeAfterPanic closes a connection whose request panicked. It releases the resources of the
// request: an in-flight count that is never decremented would block its shard forever. It does not
// return the buffers to their pool, because another goroutine may still write to them.
func (c *client) closeAfterPanic(value any) {
	c.server.panics.Record(value)
	if c.hasRelay() { // after a panic, the relay goroutines do not end it
		c.leaveRelay()
		c.finishExchange()
	}
	running := c.slot.Load().Kind != 0
	c.terminate(cause.Shutdown)
	c.closeConn()
	c.body.StopSending() // does not block, because both connections are closed
	if running {
		conn := c.slot.Conn.Load()
		c.slot.Finish()
		_ = conn.Close()
		conn.Pool.ReleaseSlot(conn)
	}
	c.admission.release()
	c.exchange.finishQueueing()
}
