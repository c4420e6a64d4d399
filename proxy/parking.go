package proxy

import (
	"errors"
	"sync/atomic"
	"time"

	"shardway/internal/netpoll"
	"shardway/proxy/connset"
)

// maxParksPerSweep is the maximum number of connections parked in one sweep. It keeps the sweep
// short, because requests need the processor too.
const maxParksPerSweep = 256

// parkConn parks the idle connection, and reports whether it did. If parkConn returns false, the
// caller keeps the connection. A connection with buffered data cannot be parked, because only its
// socket is kept.
func (c *client) parkConn() bool {
	if len(c.conn.Buffered()) > 0 {
		return false
	}
	if c.escaped { // other goroutines may still have a reference to c
		c.idle.canPark.Store(false)
		return false
	}
	parked := &connset.Parked{Conn: c.conn.NetConn(), Watcher: &c.listener.watcher, IdleSince: c.idle.since()}
	if maxDelay := c.conn.Timeouts().FirstByte; maxDelay > 0 {
		parked.IdleDeadline = parked.IdleSince + maxDelay
	}
	var err error
	c.idle.parked, err = c.server.conns.Park(c, parked)
	if err != nil {
		if isPermanent(err) {
			c.idle.canPark.Store(false)
		} else {
			c.idle.delayPark(c.server.clock.Exact(), c.server.parkDelays.Delay(true))
		}
		c.server.options.Log.Debug().Err(err).Msg("idle connection not added to poller")
	}
	return c.idle.parked
}

// idleState tracks how long a connection has been waiting for its next request, and whether it is
// parked or closed because of that. Other goroutines use the atomic fields. Times are by the clock
// of the server.
type idleState struct {
	// start is when the connection began to wait for a request, or zero while a request is in
	// progress.
	start         atomic.Int64
	evicted       atomic.Bool  // the connection was closed in favor of another one
	canPark       atomic.Bool  // the sweep may request to park the connection
	parkRequested atomic.Bool  // the sweep has requested to park the connection
	parkDelay     atomic.Int64 // idle time, in nanoseconds, after which the sweep requests parking
	parked        bool         // the connection has been parked and no longer belongs to this client
}

// since returns when the connection became idle, or zero while a request is in progress.
func (idle *idleState) since() time.Duration { return time.Duration(idle.start.Load()) }

// delayPark postpones the next attempt to park until the connection has been idle for twice as long
// as now, and at least for minDelay. Attempts must become rare, because nothing reads from the
// connection during one.
func (idle *idleState) delayPark(now, minDelay time.Duration) {
	idle.parkDelay.Store(int64(max(2*(now-idle.since()), minDelay)))
}

// isPermanent reports whether an error of the poller is permanent. A lack of file descriptors, for
// example, is temporary.
func isPermanent(err error) bool {
	return errors.Is(err, netpoll.ErrClosed) || errors.Is(err, errors.ErrUnsupported)
}

// IsEnding reports whether the connection must close after its current request.
func (c *client) IsEnding() bool {
	return c.closing.Load() || c.conn.WaitingStopped() || c.server.lifecycle.IsAborted() || c.listener.watcher.Ctx.Err() != nil
}
