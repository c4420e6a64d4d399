package proxy

import "sync"

// A kept socket may stay for days, one of many that say little. So nobody stands where its
// request went, in the frames of the whole flow, while it has a leg: the flow is left with
// the leg in relay.leg, and another goroutine goes on, whose stack is as small as what reads
// the app needs it. After the leg it does what the flow would have done, the request for the
// next leg among that, and leaves that to another one again.

// hasRelay reports whether a leg has begun that is to be carried.
func (c *client) hasRelay() bool { return c.relay.webSocket != nil }

// serveAll is serve, and has each leg that begins carried, with what follows it, by a
// goroutine of hands. Over is called once the connection has ended, be it by an app that ends
// its goroutine.
func (c *client) serveAll(hands *sync.WaitGroup, over func()) {
	c.goroutines = hands
	defer c.continueServing(over)
	c.serve()
}

// serveOn is serveAll for one whom a loop has carried.
func (c *client) serveOn(hands *sync.WaitGroup, over func()) {
	c.goroutines = hands
	defer c.continueServing(over)
	c.runStep(c.serveRequests)
}

// runStep does what comes next on the connection, and ends it unless a leg has begun or a
// loop is to carry it.
func (c *client) runStep(do func()) {
	defer func() {
		if !c.hasRelay() && !c.handedToLoop {
			c.life.end()
			c.s.headerMemory.over(&c.headerMemory)
			c.unobserved = c.parked || c.s.conns.remove(c)
		}
	}()
	defer func() {
		if v := recover(); v != nil {
			c.fall(v)
		} else if !c.hasRelay() && !c.handedToLoop {
			if !c.parked {
				_ = c.conn.Close()
			}
			c.conn.Release()
		}
	}()
	do()
}

// continueServing has the leg that has begun carried, or a loop carry what comes, or else calls over.
func (c *client) continueServing(over func()) {
	if c.handedToLoop {
		c.handedToLoop = false
		c.eventLoops.join(c) // likewise
		return
	}
	if !c.hasRelay() {
		if !c.parked {
			over()
		}
		c.s.clients.put(c) // the last use of it
		return
	}
	l := c.relay.webSocket
	carries := func() {
		if l.runDown() {
			return // it has parked, and is woken when there is something to carry
		}
		defer c.continueServing(over)
		c.runStep(c.continueSession)
	}
	l.down.wake = l.wakeFunc(carries)
	c.goroutines.Go(carries)
}

// continueSession carries the leg to its end, and the socket on from there.
func (c *client) continueSession() {
	c.finishRelay()
	if c.hasRelay() {
		c.relay.webSocket.start(c)
		return
	}
	if !c.reportStopped() {
		c.prepareNext()
	}
}

// finishRelay is the rest of handleRequest.
func (c *client) finishRelay() {
	defer c.finishExchange()
	l := c.relay.webSocket
	c.runRelay(l)
	c.recordLoad(l.attempt.route.Kind, 0, l.sent) // a tunnel is no work
	if l.client {
		c.resume()
	}
}

// runRelay carries the leg to its end.
func (c *client) runRelay(l *webSocketRelay) {
	defer c.leaveRelay()
	l.finish()
	why := l.attempt.abort()
	if !l.client {
		l.reportEnd(why)
		return
	}
	l.end()
	l.decideOutcome(why, &c.x, l.attempt.route)
	l.session.bulk = l.isBulk()
	sessionLog{&c.requestState}.ends(l.recordEnd())
}

// leaveRelay ends what the leg that has begun counts for, and what others may do to it.
func (c *client) leaveRelay() {
	l := c.relay.webSocket
	c.relay.webSocket = nil
	c.slot.webSocket.Store(nil)
	l.addRunning(-1)
}
