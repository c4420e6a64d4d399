package proxy

import (
	"context"
	"errors"
	"net"
	"time"

	"shardway/internal/rawio"
)

const (
	// parkAfter is how long a client connection must be idle before it is parked.
	parkAfter = time.Second
	// parkAfterReturn is the same time for a connection that was parked and whose client sent its
	// next request within this time. Parking a connection and resuming it costs about half as much
	// as a request over one hop. For a client that sends a request every few seconds, that is not
	// worth it.
	parkAfterReturn = 10 * time.Second
	// maxParksPerSweep is the number of connections that one sweep parks. Requests wait for the
	// processor meanwhile.
	maxParksPerSweep = 256
)

// idleWatcher watches the parked connections of a listener. A parked connection is an idle client
// connection without a goroutine and without buffers; only its socket and a parkedConn remain.
// One goroutine waits in epoll for all of them, and resumes a connection when its client sends
// something or disconnects. On systems other than Linux, no connection is parked.
//
// At any time, a connection has exactly one owner:
//
//   - its client, until registry.park has parked it
//   - the idleWatcher, while it is parked
//   - the caller of unpark: the goroutine of the idleWatcher when the client sends something, the
//     sweep when the idle timeout has passed, or a function that closes connections
//
// The last owner makes a new client for the connection. Poller events of a connection that is
// not parked any more are ignored; ids are never reused.
//
//	client ──park──► parked ──unpark──► client
//
// The old client must not be used after park. clientPool explains why no other goroutine can
// still hold it.
type idleWatcher struct {
	within  context.Context //nolint:containedctx // of the listener's whole life
	workers *workerPool     // its WaitGroup also counts the parked connections
	conns   *registry
	clock   *coarse

	// conns.mu protects the following fields.
	poller *rawio.Poller // nil means that no connection has been parked yet
	ended  chan struct{} // closed when the goroutine has ended
	broken bool          // the goroutine has ended, and no connection can be parked
}

var (
	errWatcherClosed = errors.New("proxy: no connection is parked any more")
	errRegistryBusy  = errors.New("proxy: connections are being looked at all the time")
)

// parkedConn is a parked connection.
type parkedConn struct {
	conn    net.Conn
	watcher *idleWatcher
	id      uint64
	since   time.Duration // when it became idle, by the clock of the server
	until   time.Duration // when its idle timeout ends; zero means no timeout
}

// watch starts to watch p. The caller holds conns.mu.
func (l *idleWatcher) watch(p *parkedConn) error {
	if l.poller == nil && !l.broken {
		lookout, err := rawio.NewPoller()
		if err != nil {
			return err
		}
		l.poller, l.ended = lookout, make(chan struct{})
		go l.run() // until close
	}
	if l.broken {
		return errWatcherClosed
	}
	if err := l.poller.Add(p.conn, p.id); err != nil {
		return err
	}
	l.workers.wg.Add(1)
	return nil
}

// run resumes the connections whose clients have sent something or disconnected, until close.
func (l *idleWatcher) run() {
	defer close(l.ended)
	for heard := []rawio.Event(nil); ; {
		var err error
		if heard, err = l.poller.Wait(heard[:0]); err != nil {
			break
		}
		l.conns.claim(heard, l.clock.now())
	}
	l.conns.mu.Lock()
	l.broken = true
	l.conns.mu.Unlock()
	l.conns.wake(false, func(p *parkedConn) bool { return p.watcher == l }) // after close there are none; after a poller error these continue
}

// initClient prepares a client for a connection of this listener, which is new or was parked.
func (l *idleWatcher) initClient(c *client, g job) {
	c.watcher = l
	if c.conn.Pollable() && c.s.upstream != nil && c.s.o.Handler == nil {
		c.eventLoops = &c.s.loops
		c.conn.SetWakeup(&c.wakeLoop)
		c.eligibility = loopEligibility{skip: 1} // the first request has arrived, or will arrive in a moment
	}
	c.canPark.Store(c.conn.Pollable() && c.s.o.Handler == nil) // an app in this process may still read from it
	if c.parkDelay.Store(c.s.parkAfter.Load()); g.returnedSoon {
		c.parkDelay.Store(c.s.parkSoon.Load())
	}
	if g.stop {
		c.evicted.Store(true)
		c.conn.StopIdle()
	}
}

// resume gives a client that has left its event loop to a goroutine.
func (l *idleWatcher) resume(c *client) {
	l.workers.submit(job{client: c})
	l.workers.wg.Done()
}

// close ends the watcher. No connection may be parked any more.
func (l *idleWatcher) close() {
	l.conns.mu.Lock()
	lookout, ended := l.poller, l.ended
	l.broken = true
	l.conns.mu.Unlock()
	if lookout != nil {
		_ = lookout.Close()
		<-ended
	}
}

// wake resumes a connection that unpark has removed. With stop, the connection is closed unless
// its client has sent something.
func (p *parkedConn) wake(stop bool) { p.resume(job{conn: p.conn, stop: stop}) }

// resume gives a connection that unpark has removed to a goroutine, with a new client.
func (p *parkedConn) resume(g job) {
	_ = p.watcher.poller.Remove(p.conn) // an error means that it is not watched
	p.watcher.workers.submit(g)
	p.watcher.workers.wg.Done()
}

// park parks the idle connection and reports whether it is parked. If it reports false, the
// connection continues, or ends. Only the socket is kept, so that a connection with buffered data
// cannot be parked.
func (c *client) park() bool {
	if len(c.conn.Buffered()) > 0 {
		return false
	}
	if c.escaped { // other goroutines may still use c
		c.canPark.Store(false)
		return false
	}
	p := &parkedConn{conn: c.conn.NetConn(), watcher: c.watcher, since: time.Duration(c.idle.Load())}
	if most := c.conn.Timeouts().First; most > 0 {
		p.until = p.since + most
	}
	var err error
	c.parked, err = c.s.conns.park(c, p)
	if err != nil {
		c.delayPark(isPermanent(err))
		c.s.o.Log.Debug().Err(err).Msg("idle connection not added to poller")
	}
	return c.parked
}

// isPermanent reports whether an error of the poller will not go away, in contrast to a temporary
// lack of file descriptors.
func isPermanent(err error) bool {
	return errors.Is(err, errWatcherClosed) || errors.Is(err, errCallbackWatcherClosed) || errors.Is(err, errors.ErrUnsupported)
}

// delayPark postpones parking until the connection has been idle for twice as long as now, or
// forever. During an attempt to park, nothing reads from the connection, so attempts become rare.
func (c *client) delayPark(never bool) {
	if never {
		c.canPark.Store(false)
		return
	}
	idle := c.s.clock.exact() - time.Duration(c.idle.Load())
	c.parkDelay.Store(max(2*int64(idle), c.s.parkSoon.Load()))
}

// isEnding reports whether the connection must end after its present request.
func (c *client) isEnding() bool {
	return c.closing.Load() || c.conn.Stopped() || c.s.forceCtx.Err() != nil || c.watcher.within.Err() != nil
}
