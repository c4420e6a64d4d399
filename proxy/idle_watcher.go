package proxy

import (
	"context"
	"errors"
	"net"
	"time"

	"shardway/internal/coarsetime"
	"shardway/internal/netpoll"
	"shardway/internal/workerpool"
)

const (
	// parkAfter is how long a client connection must be idle before it is parked.
	parkAfter = time.Second
	// parkAfterReturn is the same time for a connection that was parked before, if its client sent
	// the next request within parkAfterReturn. Parking and resuming a connection costs about half
	// as much as forwarding a request. For a client that sends a request every few seconds, that
	// cost exceeds the benefit.
	parkAfterReturn = 10 * time.Second
	// maxParksPerSweep is the maximum number of connections that one sweep parks. The limit keeps
	// the sweep short, because requests need the processor in the meantime.
	maxParksPerSweep = 256
)

// idleWatcher watches the parked connections of a listener. A parked connection is an idle client
// connection without a goroutine and without buffers; only its socket and a parkedConn remain.
// The goroutine of sockets resumes a connection when its client sends something or disconnects. On
// systems other than Linux, no connection is parked.
//
// At any time, a connection has exactly one owner:
//
//   - its client, until registry.park has parked it
//   - the idleWatcher, while it is parked
//   - the caller of unpark: the goroutine of sockets when the client sends something, the sweep
//     when the idle timeout has passed, or a function that closes connections
//
// The last of these owners creates a new client for the connection. Events of a connection that is
// no longer parked are ignored. Each time that a connection is parked, it has another parkedConn, so
// that an old event cannot match it.
//
//	client ──park──► parked ──unpark──► client
//
// The old client must not be used after park. The documentation of clientPool explains why no other
// goroutine can still have a reference to it.
type idleWatcher struct {
	parentCtx context.Context       //nolint:containedctx // lives as long as the listener
	workers   *workerpool.Pool[job] // its group also counts the parked connections
	clock     *coarsetime.Clock
	sockets   netpoll.Watcher
}

var errRegistryBusy = errors.New("proxy: connections are being looked at all the time")

// parkedConn is a parked connection.
type parkedConn struct {
	conn         net.Conn
	watcher      *idleWatcher
	cancel       func()        // stops watching conn
	idleSince    time.Duration // when it became idle, by the clock of the server
	idleDeadline time.Duration // when its idle timeout ends; zero means no timeout
}

// initClient prepares a client for a connection of this listener, which is new or was parked
// before.
func (watcher *idleWatcher) initClient(c *client, next job) {
	c.watcher = watcher
	if c.conn.Pollable() && c.server.upstream != nil && c.server.options.Handler == nil && !c.server.options.Disable.EventLoop {
		c.eventLoops = &c.server.loops
		c.conn.SetWakeup(&c.wakeLoop)
		c.eligibility = loopEligibility{skip: 1} // the first request has arrived or is about to arrive, so the goroutine serves it
	}
	c.canPark.Store(c.conn.Pollable() && c.server.options.Handler == nil && !c.server.options.Disable.Parking) // an app in this process may still read from the connection
	if c.parkDelay.Store(c.server.parkAfter.Load()); next.returnedSoon {
		c.parkDelay.Store(c.server.parkSoon.Load())
	}
	if next.stop {
		c.evicted.Store(true)
		c.conn.StopWaiting()
	}
}

// resume gives a client that has left its event loop to a worker goroutine.
func (watcher *idleWatcher) resume(c *client) {
	watcher.workers.Submit(job{client: c})
	watcher.workers.Group().Done()
}

// wake resumes a connection that unpark has removed from the registry. With stop, the connection is
// closed unless its client has sent data.
func (parked *parkedConn) wake(stop bool) { parked.resume(job{conn: parked.conn, stop: stop}) }

// resume gives a connection that unpark has removed to a worker goroutine, which creates a new
// client.
func (parked *parkedConn) resume(next job) {
	parked.cancel()
	parked.watcher.workers.Submit(next)
	parked.watcher.workers.Group().Done()
}

// parkConn parks the idle connection, and reports whether it did. If parkConn returns false, the
// caller keeps the connection. A connection with buffered data cannot be parked, because only its
// socket is kept.
func (c *client) parkConn() bool {
	if len(c.conn.Buffered()) > 0 {
		return false
	}
	if c.escaped { // other goroutines may still have a reference to c
		c.canPark.Store(false)
		return false
	}
	parked := &parkedConn{conn: c.conn.NetConn(), watcher: c.watcher, idleSince: time.Duration(c.idleStart.Load())}
	if maxDelay := c.conn.Timeouts().First; maxDelay > 0 {
		parked.idleDeadline = parked.idleSince + maxDelay
	}
	var err error
	c.parked, err = c.server.conns.addParked(c, parked)
	if err != nil {
		c.delayPark(isPermanent(err))
		c.server.options.Log.Debug().Err(err).Msg("idle connection not added to poller")
	}
	return c.parked
}

// isPermanent reports whether an error of the poller is permanent. A lack of file descriptors, for
// example, is temporary.
func isPermanent(err error) bool {
	return errors.Is(err, netpoll.ErrClosed) || errors.Is(err, errors.ErrUnsupported)
}

// delayPark postpones the next attempt to park until the connection has been idle for twice as long
// as now. With never, there are no further attempts. Attempts must become rare, because nothing
// reads from the connection during an attempt.
func (c *client) delayPark(cannotPark bool) {
	if cannotPark {
		c.canPark.Store(false)
		return
	}
	idle := c.server.clock.Exact() - time.Duration(c.idleStart.Load())
	c.parkDelay.Store(max(2*int64(idle), c.server.parkSoon.Load()))
}

// isEnding reports whether the connection must close after its present request.
func (c *client) isEnding() bool {
	return c.closing.Load() || c.conn.WaitingStopped() || c.server.forceCtx.Err() != nil || c.watcher.parentCtx.Err() != nil
}
