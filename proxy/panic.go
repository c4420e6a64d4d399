package proxy

import (
	"errors"
	"runtime/debug"
)

// errPanicked is the result of a body copy that panicked.
var errPanicked = errors.New("proxy: panicked")

// panicked logs a panic while a request was served, which is a bug. The node continues.
func (s *Server) panicked(v any) {
	s.metrics.panics.Add(1)
	s.o.Log.Error().Any("panic", v).Bytes("stack", debug.Stack()).Msg("request panicked, please report this")
}

// closeAfterPanic closes a connection whose request panicked. It releases what the request has
// acquired: an in-flight count that stays up would block its shard forever. It does not release the
// buffers, because another goroutine may still write into them.
func (c *client) closeAfterPanic(v any) {
	c.s.panicked(v)
	if c.hasRelay() { // no other goroutine will end it
		c.leaveRelay()
		c.finishExchange()
	}
	running := c.slot.load().kind != 0
	c.terminate(causeShutdown)
	_ = c.conn.Close()
	c.body.stop() // returns at once, because both connections are closed
	if running {
		l := c.slot.conn.Load()
		c.slot.finish()
		_ = l.Close()
		l.pool.releaseSlot(l)
	}
	c.release()
	c.x.leaveQueue()
}

// pumpSafely calls send, which sends a body, and turns a panic into errPanicked.
func (s *Server) pumpSafely(send func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			s.panicked(v)
			err = errPanicked
		}
	}()
	return send()
}

// copySafely calls direction, which copies one direction of a tunnel. It reports false if direction
// did, or panicked.
func (s *Server) copySafely(direction func() bool) (whole bool) {
	defer func() {
		if v := recover(); v != nil {
			s.panicked(v)
			whole = false
		}
	}()
	return direction()
}
