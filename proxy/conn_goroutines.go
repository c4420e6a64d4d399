package proxy

import "sync"

// A resumable WebSocket may stay open for days, and a server may have many idle ones. While such a
// WebSocket has an upstream connection, no goroutine should keep the deep stack of the request
// flow. Therefore the flow returns after a relay has started (responseRelay.webSocket), and another
// goroutine with a small stack runs the relay. After the relay, that goroutine executes the rest of
// the request flow. This includes the request for the next relay, which again continues in a new
// goroutine.

// hasRelay reports whether a relay has started that continueServing must run.
func (c *client) hasRelay() bool { return c.relay.hasWebSocket() }

// serveAll runs serve. Then it runs the relays of the connection in further goroutines, which it counts in
// goroutines. It calls onEnd when the connection has ended, even if an app in this process has called
// runtime.Goexit.
func (c *client) serveAll(goroutines *sync.WaitGroup, onEnd func()) {
	c.goroutines = goroutines
	defer c.continueServing(onEnd)
	c.serve()
}

// serveOn is like serveAll, for a client that an event loop has handed off.
func (c *client) serveOn(goroutines *sync.WaitGroup, onEnd func()) {
	c.goroutines = goroutines
	defer c.continueServing(onEnd)
	c.runStep(c.serveRequests)
}

// runStep runs the next step of the connection. After it, or after a panic, runStep closes the
// connection and removes the client from Server.conns, unless the connection continues in another goroutine
// or was parked.
func (c *client) runStep(step func()) {
	defer func() {
		if !c.continuesElsewhere() {
			c.life.End()
			c.server.headerMemory.Release(&c.headerMemory)
			c.unobserved = c.idle.parked || c.server.conns.Remove(c)
		}
	}()
	defer func() {
		if panicValue := recover(); panicValue != nil {
			c.closeAfterPanic(panicValue)
			return
		}
		if c.continuesElsewhere() {
			return
		}
		if !c.idle.parked {
			_ = c.conn.Close()
		}
		c.conn.ReleaseBuffers()
	}()
	step()
}

// continuesElsewhere reports whether the connection continues in another goroutine, because a relay
// has started or an event loop takes over.
func (c *client) continuesElsewhere() bool { return c.hasRelay() || c.loopClient.IsJoining() }

// continueServing runs the relay that has started, or hands the client to an event loop. Otherwise
// the connection has ended or was parked; continueServing calls onEnd only if it has ended.
func (c *client) continueServing(onEnd func()) {
	if c.loopClient.IsJoining() {
		c.goroutines.Add(1) // until ResumeInGoroutine
		c.loopClient.Join() // c belongs to another goroutine now
		return
	}
	if !c.hasRelay() {
		if !c.idle.parked {
			onEnd()
		}
		c.server.clients.put(c) // c belongs to another goroutine now
		return
	}
	relay := c.relay.webSocket
	runDown := func() {
		if relay.RunDown() {
			return // the direction has parked
		}
		defer c.continueServing(onEnd)
		c.runStep(c.continueSession)
	}
	relay.SetWakeDown(runDown)
	c.goroutines.Go(runDown)
}

// continueSession runs after a relay has copied the last byte from the app to the client. It ends
// the relay, and then starts the WebSocket session's next relay or prepares the connection for the
// next request.
func (c *client) continueSession() {
	c.finishRelay()
	if c.hasRelay() {
		c.startRelay()
		return
	}
	if !c.reportStopped() {
		c.prepareNext()
	}
}

// finishRelay executes the rest of handleRequest after a relay has ended. At the ingress, this
// includes the request for the next relay.
func (c *client) finishRelay() {
	defer c.finishExchange()
	relay := c.relay.webSocket
	c.runRelay(relay)
	c.runner.recordLoad(relay.attempt.route.Kind, 0, relay.sentBefore) // the duration of a tunnel is not part of the load
	if relay.LeadsToClient() {
		c.resumer.runNextRelays()
	}
}

// runRelay completes a relay that has copied the last byte from the app to the client. At the ingress,
// which has the client (relay.LeadsToClient), it decides how the session continues. At another node, it
// reports the end of the relay to the ingress.
func (c *client) runRelay(relay *webSocketRun) {
	defer c.leaveRelay()
	relay.StopUp()
	cancelCause := relay.attempt.abort()
	if !relay.LeadsToClient() {
		relay.ReportEnd(cancelCause)
		return
	}
	relay.Finish(cancelCause, c.exchange.shard, relay.attempt.route)
	sessionLog{&c.requestState}.logRelayEnd(c.resumer.recordRelayEnd(&relay.Relay))
}

// leaveRelay removes an ended relay from the client, from the slot in which other goroutines find the
// current run (inflight.Slot), and from the counts of running relays.
func (c *client) leaveRelay() {
	relay := c.relay.webSocket
	c.relay.webSocket = nil
	c.slot.WebSocket.Store(nil)
	c.server.webSockets.adjustRunning(relay, -1)
}
