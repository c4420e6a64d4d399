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
	// parkSoon is the same after its client has come back sooner than that. Parking a
	// connection and fetching it cost about half as much as a request over one hop, so for
	// those who ask every few seconds it is not done.
	parkSoon = 10 * time.Second
	// parkMost is how many are parked in one sweep: others wait for the processor meanwhile.
	parkMost = 256
)

// lot is where the idle connections of a listener are parked: nobody stands there, and
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
type lot struct {
	within context.Context //nolint:containedctx // of the listener's whole life
	hands  *crew           // counts those that are parked, too
	conns  *registry
	clock  *coarse

	// With conns.mu held.
	lookout *rawio.Poller // nil: none has been parked yet
	ended   chan struct{} // closed when its goroutine has ended
	broken  bool          // it has: none is parked any more
}

var (
	errLotClosed = errors.New("proxy: no connection is parked any more")
	errLookedAt  = errors.New("proxy: connections are being looked at all the time")
)

// parked is a connection that is in a lot.
type parked struct {
	conn  net.Conn
	lot   *lot
	id    uint64
	since time.Duration // when it was idle first, by the server's clock
	until time.Duration // when that is too long; zero: never
}

// take begins to watch p. With conns.mu held.
func (l *lot) take(p *parked) error {
	if l.lookout == nil && !l.broken {
		lookout, err := rawio.NewPoller()
		if err != nil {
			return err
		}
		l.lookout, l.ended = lookout, make(chan struct{})
		go l.run() // until close
	}
	if l.broken {
		return errLotClosed
	}
	if err := l.lookout.Add(p.conn, p.id); err != nil {
		return err
	}
	l.hands.wg.Add(1)
	return nil
}

// run fetches the connections whose clients have spoken, or gone, until close.
func (l *lot) run() {
	defer close(l.ended)
	for heard := []rawio.Event(nil); ; {
		var err error
		if heard, err = l.lookout.Wait(heard[:0]); err != nil {
			break
		}
		l.conns.claim(heard, l.clock.now())
	}
	l.conns.mu.Lock()
	l.broken = true
	l.conns.mu.Unlock()
	l.conns.wake(false, func(p *parked) bool { return p.lot == l }) // none, unless that was no close
}

// welcome says that a client is the listener's: one that just came in, or was parked.
func (l *lot) welcome(c *client, g guest) {
	c.lot = l
	if c.h.Pollable() && c.s.upstream != nil && c.s.o.Handler == nil {
		c.loops = &c.s.loops
		c.h.SetWakeup(&c.poke)
		c.habit = habit{rests: 1} // its first request is here, or will be in a moment
	}
	c.parks.Store(c.h.Pollable() && c.s.o.Handler == nil) // an app in this process may still read from it
	if c.lag.Store(c.s.parkAfter.Load()); g.soon {
		c.lag.Store(c.s.parkSoon.Load())
	}
	if g.stop {
		c.shed.Store(true)
		c.h.StopIdle()
	}
}

// carryOn has a client carried that has left its loop.
func (l *lot) carryOn(c *client) {
	l.hands.take(guest{client: c})
	l.hands.wg.Done()
}

// close ends the lot, in which none is left.
func (l *lot) close() {
	l.conns.mu.Lock()
	lookout, ended := l.lookout, l.ended
	l.broken = true
	l.conns.mu.Unlock()
	if lookout != nil {
		_ = lookout.Close()
		<-ended
	}
}

// wake has a connection that was taken out of the lot go on; with stop it ends, unless its
// client has spoken.
func (p *parked) wake(stop bool) { p.fetch(guest{conn: p.conn, stop: stop}) }

// fetch has a connection that was taken out of the lot carried again.
func (p *parked) fetch(g guest) {
	_ = p.lot.lookout.Remove(p.conn) // an error means that nobody watches it any more
	p.lot.hands.take(g)
	p.lot.hands.wg.Done()
}

// park parks the connection, which is idle. False: it goes on as it is, or ends. Only the socket
// is kept: what has been read of a client that speaks now is not.
func (c *client) park() bool {
	if len(c.h.Buffered()) > 0 {
		return false
	}
	if c.shared { // others may act on it
		c.parks.Store(false)
		return false
	}
	p := &parked{conn: c.h.NetConn(), lot: c.lot, since: time.Duration(c.idle.Load())}
	if most := c.h.Timeouts().First; most > 0 {
		p.until = p.since + most
	}
	var err error
	c.parked, err = c.s.conns.park(c, p)
	if err != nil {
		c.parkLater(lasts(err))
		c.s.o.Log.Debug().Err(err).Msg("idle connection not parked")
	}
	return c.parked
}

// lasts reports whether what kept something from being watched is not over in a moment, as a
// want of descriptors is.
func lasts(err error) bool {
	return errors.Is(err, errLotClosed) || errors.Is(err, errRoostOver) || errors.Is(err, errors.ErrUnsupported)
}

// parkLater has the sweep try again once the connection has been idle for twice as long as now,
// or never: nobody reads while it is tried, so that is done less and less.
func (c *client) parkLater(never bool) {
	if never {
		c.parks.Store(false)
		return
	}
	idle := c.s.clock.exact() - time.Duration(c.idle.Load())
	c.lag.Store(max(2*int64(idle), c.s.parkSoon.Load()))
}

// ends reports whether the connection has been told to end.
func (c *client) ends() bool {
	return c.down.Load() || c.h.Stopped() || c.s.hard.Err() != nil || c.lot.within.Err() != nil
}
