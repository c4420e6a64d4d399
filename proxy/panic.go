package proxy

import (
	"errors"
	"runtime/debug"
)

// errPanicked is what the sending of a body ended with.
var errPanicked = errors.New("proxy: panicked")

// panicked notes a bug that met one request. The node goes on.
func (s *Server) panicked(v any) {
	s.metrics.panics.Add(1)
	s.o.Log.Error().Any("panic", v).Bytes("stack", debug.Stack()).Msg("request panicked, please report this")
}

// fall ends a connection whose request panicked. What the request held is given
// back: a count that stayed up would hold its shard for ever. Its buffers are not,
// as somebody may still write into them.
func (c *client) closeAfterPanic(v any) {
	c.s.panicked(v)
	if c.hasRelay() { // nobody does
		c.leaveRelay()
		c.finishExchange()
	}
	running := c.slot.load().kind != 0
	c.terminate(causeShutdown)
	_ = c.conn.Close()
	c.body.stop() // at once: both connections are closed
	if running {
		l := c.slot.conn.Load()
		c.slot.finish()
		_ = l.Close()
		l.pool.releaseSlot(l)
	}
	c.release()
	c.x.leaveQueue()
}

// pumpSafely is pump for the goroutine that sends a body.
func (s *Server) pumpSafely(send func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			s.panicked(v)
			err = errPanicked
		}
	}()
	return send()
}

// copySafely runs one direction of a tunnel; false means that it is broken.
func (s *Server) copySafely(direction func() bool) (whole bool) {
	defer func() {
		if v := recover(); v != nil {
			s.panicked(v)
			whole = false
		}
	}()
	return direction()
}
