package proxy

import (
	"context"
	"errors"
	"net"
	"time"

	"shardway/internal/rawio"
)

const (
	// parkAfter is for how long a client's connection has to be idle before it is parked.
	parkAfter = time.Second
	// parkAfterReturn is the same after its client has come back sooner than that. Parking a
	// connection and fetching it cost about half as much as a request over one hop, so for
	// those who ask every few seconds it is not done.
	parkAfterReturn = 10 * time.Second
	// maxParksPerSweep is how many are parked in one sweep: others wait for the processor meanwhile.
	maxParksPerSweep = 256
)

// idleWatcher is where the idle connections of a listener are parked: nobody stands there, and
// nothing is kept but the socket and what a parked says. One goroutine for all of them hears
// from the kernel whose client has spoken, or gone. Where there is no such thing (other
// systems than Linux) none is parked.
//
// Each connection is at any time one's alone: its client's, until registry.park has it; the
// lot's; and his who takes it out of there by unpark, be it the lot's goroutine as its client
// speaks, the sweep as its time is over, or who ends it. He gives it to a new client. What the
// kernel tells of one that is not there any more is of no meaning, as no two have the same id.
//
//	client ──park──► parked ──unpark──► client
//
// That nobody still has the old client, who would act on it and miss the new one, is as
// certain as for its memory: see spares.
type idleWatcher struct {
	within  context.Context //nolint:containedctx // of the listener's whole life
	workers *workerPool     // counts those that are parked, too
	conns   *registry
	clock   *coarse

	// With conns.mu held.
	poller *rawio.Poller // nil: none has been parked yet
	ended  chan struct{} // closed when its goroutine has ended
	broken bool          // it has: none is parked any more
}

var (
	errWatcherClosed = errors.New("proxy: no connection is parked any more")
	errRegistryBusy  = errors.New("proxy: connections are being looked at all the time")
)

// parkedConn is a connection that is in a lot.
type parkedConn struct {
	conn    net.Conn
	watcher *idleWatcher
	id      uint64
	since   time.Duration // when it was idle first, by the server's clock
	until   time.Duration // when that is too long; zero: never
}

// watch begins to watch p. With conns.mu held.
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

// run fetches the connections whose clients have spoken, or gone, until close.
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
	l.conns.wake(false, func(p *parkedConn) bool { return p.watcher == l }) // none, unless that was no close
}

// initClient says that a client is the listener's: one that just came in, or was parked.
func (l *idleWatcher) initClient(c *client, g job) {
	c.watcher = l
	if c.h.Pollable() && c.s.upstream != nil && c.s.o.Handler == nil {
		c.eventLoops = &c.s.loops
		c.h.SetWakeup(&c.wakeLoop)
		c.eligibility = loopEligibility{skip: 1} // its first request is here, or will be in a moment
	}
	c.canPark.Store(c.h.Pollable() && c.s.o.Handler == nil) // an app in this process may still read from it
	if c.parkDelay.Store(c.s.parkAfter.Load()); g.returnedSoon {
		c.parkDelay.Store(c.s.parkSoon.Load())
	}
	if g.stop {
		c.shed.Store(true)
		c.h.StopIdle()
	}
}

// resume has a client carried that has left its loop.
func (l *idleWatcher) resume(c *client) {
	l.workers.submit(job{client: c})
	l.workers.wg.Done()
}

// close ends the lot, in which none is left.
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

// wake has a connection that was taken out of the lot go on; with stop it ends, unless its
// client has spoken.
func (p *parkedConn) wake(stop bool) { p.resume(job{conn: p.conn, stop: stop}) }

// resume has a connection that was taken out of the lot carried again.
func (p *parkedConn) resume(g job) {
	_ = p.watcher.poller.Remove(p.conn) // an error means that nobody watches it any more
	p.watcher.workers.submit(g)
	p.watcher.workers.wg.Done()
}

// park parks the connection, which is idle. False: it goes on as it is, or ends. Only the socket
// is kept: what has been read of a client that speaks now is not.
func (c *client) park() bool {
	if len(c.h.Buffered()) > 0 {
		return false
	}
	if c.escaped { // others may act on it
		c.canPark.Store(false)
		return false
	}
	p := &parkedConn{conn: c.h.NetConn(), watcher: c.watcher, since: time.Duration(c.idle.Load())}
	if most := c.h.Timeouts().First; most > 0 {
		p.until = p.since + most
	}
	var err error
	c.parked, err = c.s.conns.park(c, p)
	if err != nil {
		c.delayPark(isPermanent(err))
		c.s.o.Log.Debug().Err(err).Msg("idle connection not parked")
	}
	return c.parked
}

// isPermanent reports whether what kept something from being watched is not over in a moment, as a
// want of descriptors is.
func isPermanent(err error) bool {
	return errors.Is(err, errWatcherClosed) || errors.Is(err, errRoostOver) || errors.Is(err, errors.ErrUnsupported)
}

// delayPark has the sweep try again once the connection has been idle for twice as long as now,
// or never: nobody reads while it is tried, so that is done less and less.
func (c *client) delayPark(never bool) {
	if never {
		c.canPark.Store(false)
		return
	}
	idle := c.s.clock.exact() - time.Duration(c.idle.Load())
	c.parkDelay.Store(max(2*int64(idle), c.s.parkSoon.Load()))
}

// isEnding reports whether the connection has been told to end.
func (c *client) isEnding() bool {
	return c.down.Load() || c.h.Stopped() || c.s.hard.Err() != nil || c.watcher.within.Err() != nil
}
