package proxy

import "sync"

// A kept socket may stay for days, one of many that say little. So nobody stands where its
// request went, in the frames of the whole flow, while it has a leg: the flow is left with
// the leg in relay.leg, and another goroutine goes on, whose stack is as small as what reads
// the app needs it. After the leg it does what the flow would have done, the request for the
// next leg among that, and leaves that to another one again.

// carries reports whether a leg has begun that is to be carried.
func (c *client) carries() bool { return c.relay.leg != nil }

// serveAll is serve, and has each leg that begins carried, with what follows it, by a
// goroutine of hands. Over is called once the connection has ended, be it by an app that ends
// its goroutine.
func (c *client) serveAll(hands *sync.WaitGroup, over func()) {
	c.hands = hands
	defer c.goOn(over)
	c.serve()
}

// serveOn is serveAll for one whom a loop has carried.
func (c *client) serveOn(hands *sync.WaitGroup, over func()) {
	c.hands = hands
	defer c.goOn(over)
	c.within(c.serveRequests)
}

// within does what comes next on the connection, and ends it unless a leg has begun or a
// loop is to carry it.
func (c *client) within(do func()) {
	defer func() {
		if !c.carries() && !c.handedToLoop {
			c.life.end()
			c.s.heads.over(&c.head)
			c.unobserved = c.parked || c.s.conns.remove(c)
		}
	}()
	defer func() {
		if v := recover(); v != nil {
			c.fall(v)
		} else if !c.carries() && !c.handedToLoop {
			if !c.parked {
				_ = c.h.Close()
			}
			c.h.Release()
		}
	}()
	do()
}

// goOn has the leg that has begun carried, or a loop carry what comes, or else calls over.
func (c *client) goOn(over func()) {
	if c.handedToLoop {
		c.handedToLoop = false
		c.eventLoops.join(c) // likewise
		return
	}
	if !c.carries() {
		if !c.parked {
			over()
		}
		c.s.clients.put(c) // the last use of it
		return
	}
	l := c.relay.leg
	carries := func() {
		if l.carryDown() {
			return // it has parked, and is woken when there is something to carry
		}
		defer c.goOn(over)
		c.within(c.carry)
	}
	l.down.wake = l.waking(carries)
	c.hands.Go(carries)
}

// carry carries the leg to its end, and the socket on from there.
func (c *client) carry() {
	c.carryOn()
	if c.carries() {
		c.relay.leg.begin(c)
		return
	}
	if !c.reportStopped() {
		c.prepareNext()
	}
}

// carryOn is the rest of handleRequest.
func (c *client) carryOn() {
	defer c.finishExchange()
	l := c.relay.leg
	c.carryLeg(l)
	c.recordLoad(l.trip.r.Kind, 0, l.sent) // a tunnel is no work
	if l.client {
		c.resume()
	}
}

// carryLeg carries the leg to its end.
func (c *client) carryLeg(l *leg) {
	defer c.leaveLeg()
	l.finish()
	why := l.trip.abort()
	if !l.client {
		l.part(why)
		return
	}
	l.end()
	l.judge(why, &c.x, l.trip.r)
	l.k.heavy = l.heavy()
	legLine{&c.requestState}.ends(l.ends())
}

// leaveLeg ends what the leg that has begun counts for, and what others may do to it.
func (c *client) leaveLeg() {
	l := c.relay.leg
	c.relay.leg = nil
	c.slot.leg.Store(nil)
	l.counts(-1)
}
