package proxy

import (
	"errors"
	"runtime/debug"
	"sync/atomic"

	"github.com/rs/zerolog"

	"shardway/proxy/cause"
)

// errPanicked replaces the error of an operation that panicked.
var errPanicked = errors.New("proxy: panicked")

// panicRecorder logs and counts panics of the proxy that occur while it serves requests. Such a
// panic is always a bug. The node continues to run.
type panicRecorder struct {
	log   *zerolog.Logger
	count *atomic.Uint64
}

// record records a panic with the given value. The log line contains the stack of the caller.
func (panics *panicRecorder) record(value any) {
	panics.count.Add(1)
	panics.log.Error().Any("panic", value).Bytes("stack", debug.Stack()).Msg("request panicked, please report this")
}

// closeAfterPanic closes a connection whose request panicked. It releases the resources of the
// request: an in-flight count that is never decremented would block its shard forever. It does not
// return the buffers to their pool, because another goroutine may still write to them.
func (c *client) closeAfterPanic(value any) {
	c.server.panics.record(value)
	if c.hasRelay() { // the relay goroutines do not end it after a panic
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
	c.exchange.leaveQueue()
}

// sendRecovering calls send, which sends a message body. It converts a panic into errPanicked.
func (panics *panicRecorder) sendRecovering(send func() error) (err error) {
	defer func() {
		if panicValue := recover(); panicValue != nil {
			panics.record(panicValue)
			err = errPanicked
		}
	}()
	return send()
}

// copyRecovering calls direction, which copies one direction of a tunnel. whole is the result of
// direction, or false after a panic.
func (panics *panicRecorder) copyRecovering(direction func() bool) (whole bool) {
	defer func() {
		if panicValue := recover(); panicValue != nil {
			panics.record(panicValue)
			whole = false
		}
	}()
	return direction()
}
