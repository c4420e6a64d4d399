package proxy

import "sync"

// A resumable WebSocket may stay open for days, and a server may have many idle ones. While it has
// an upstream connection, no goroutine should keep the deep stack of the request flow. Therefore
// the flow returns when a relay has begun (responseRelay.webSocketTunnel), and another goroutine with
// a small stack runs the relay. After the relay, that goroutine does what the flow would have
// done. That includes the request for the next relay, which again continues in a new goroutine.

// hasRelay reports whether a relay has begun that continueServing must start.
func (c *client) hasRelay() bool { return c.relay.webSocket != nil }

// serveAll is serve, and runs each relay that begins, and what follows it, in a goroutine that
// hands counts. It calls over when the connection has ended, also if an app in this process ends
// the goroutine.
func (c *client) serveAll(hands *sync.WaitGroup, over func()) {
	c.goroutines = hands
	defer c.continueServing(over)
	c.serve()
}

// serveOn is serveAll for a client that an event loop has handed off.
func (c *client) serveOn(hands *sync.WaitGroup, over func()) {
	c.goroutines = hands
	defer c.continueServing(over)
	c.runStep(c.serveRequests)
}

// runStep calls do, the next step of the connection. Then it closes the connection, unless a relay
// has begun or an event loop takes over.
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
			c.closeAfterPanic(v)
		} else if !c.hasRelay() && !c.handedToLoop {
			if !c.parked {
				_ = c.conn.Close()
			}
			c.conn.Release()
		}
	}()
	do()
}

// continueServing starts the relay that has begun, or hands the client to an event loop. If there
// is neither, it calls over.
func (c *client) continueServing(over func()) {
	if c.handedToLoop {
		c.handedToLoop = false
		c.eventLoops.join(c) // c must not be used after this
		return
	}
	if !c.hasRelay() {
		if !c.parked {
			over()
		}
		c.s.clients.put(c) // c must not be used after this
		return
	}
	l := c.relay.webSocket
	carries := func() {
		if l.runDown() {
			return // the direction has parked
		}
		defer c.continueServing(over)
		c.runStep(c.continueSession)
	}
	l.down.wake = l.wakeFunc(carries)
	c.goroutines.Go(carries)
}

// continueSession ends the relay and continues the session.
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

// finishRelay does the rest of handleRequest after the relay has ended.
func (c *client) finishRelay() {
	defer c.finishExchange()
	l := c.relay.webSocket
	c.runRelay(l)
	c.recordLoad(l.attempt.route.Kind, 0, l.sent) // the time of a tunnel is not load
	if l.client {
		c.resume()
	}
}

// runRelay runs the relay to its end, and decides what follows.
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
	sessionLog{&c.requestState}.relayEnded(l.recordEnd())
}

// leaveRelay removes the relay from the counters and from the slot.
func (c *client) leaveRelay() {
	l := c.relay.webSocket
	c.relay.webSocket = nil
	c.slot.webSocket.Store(nil)
	l.addRunning(-1)
}
