package proxy

import (
	"cmp"
	"context"
	"time"

	"shardway/internal/problem"
	"shardway/proxy/h1"
	"shardway/proxy/route"
	"shardway/proxy/wsession"
	"shardway/proxy/wsframe"
)

// startSession handles a 101 response that starts a relay. It sends the response to the client, or
// to the ingress. The relay itself runs after the request flow has returned. startSession returns
// false if the run was cancelled before.
func (y *responseRelay) startSession(p *attempt) bool {
	k, later := y.exchange.session, y.exchange.isResumption()
	l := newWebSocketRelay(y, p)
	y.slot.webSocket.Store(l)
	if !y.slot.mark(slotResponseBegun | slotTunnel | slotWebSocket) {
		y.slot.webSocket.Store(nil)
		return false
	}
	y.webSocket = l
	l.addRunning(1)
	if l.toApp {
		p.conn.pool.detach(p.conn, nil)
	}
	y.exchange.aborted, k.relayStarted = true, true
	k.releaseUpgrade()
	p.conn.pool.breaker.OnAccepted()
	if later {
		p.conn.pool.noteResumed()
	}
	y.noteWebSocketPath(p, false)
	if later && !l.toApp {
		p.conn.pool.upgradeResponded(p.conn)
		p.conn.pool.upgradeBackoff.OnAccepted(0)
	}
	y.answered(&p.conn.res)
	if l.toClient {
		y.recordStart(k)
		k.gap = false
		if k.relays++; k.relays == 1 {
			k.protocol = string(p.conn.res.Value("Sec-WebSocket-Protocol"))
		}
	}
	l.responseSent = later || y.writeSwitchingProtocols(p, !l.toClient)
	if l.toClient {
		sessionLog{y.requestState}.relayStarted()
	}
	y.releaseBuffers(p)
	return true
}

// writeSwitchingProtocols sends a 101 response without the app's headers about the session. kept
// adds the header that confirms to the ingress that the session is resumable. It returns false
// after an error.
func (y *responseRelay) writeSwitchingProtocols(p *attempt, kept bool) bool {
	e := y.head(p.route, &p.conn.res)
	e.Upgrade, e.Close, e.KeepAlive = true, false, false
	if p.conn.res.Value(headerWebSocket) != nil {
		e.Drop |= h1.FieldSetOf(h1.FieldShardwayOther)
	}
	if kept {
		y.extra = append(y.extra, headerWebSocket+": "+valueAccepted+"\r\n"...)
		e.Extra = y.extra
	}
	return y.conn.WriteResponseHeader(&p.conn.res, e).Close(nil) == nil
}

// resume starts the later relays of a session until it has none, and then closes the client's
// connection. It returns as soon as a relay has started; the connection's goroutine then runs that
// relay and calls resume again.
func (c *client) resume() {
	k := c.exchange.session
	if k == nil || c.hasRelay() {
		return
	}
	for k.resumes && !c.closing.Load() {
		k.resumes = false
		if code, why := c.resumeSession(); code != 0 {
			k.closeCode, k.closeReason = code, why
		}
		if c.hasRelay() {
			return
		}
		c.recordLost()
	}
	if c.closing.Load() {
		return
	}
	if k.closeCode != 0 {
		w := c.conn.Writer()
		w.BeginBody(h1.UntilClose, 0)
		w.SetPrecondition(func() (time.Duration, error) { return closeFrameWrite, nil })
		_, _ = w.Write(wsframe.AppendClose(nil, k.closeCode, cmp.Or(k.closeReason, wsession.ReasonOf(k.closeCode)), false)) // an error does not matter, because the connection ends in any case
		k.lingers = w.Flush() == nil
	}
	if k.lingers {
		c.conn.CloseLinger(h1.WholeRequest)
	}
}

// resumeSession repeats the request of a session until an app accepts it or the time limit of the
// session has passed. If an app accepts it, the next relay has started and code is zero. Otherwise
// code and why describe the close frame for the client.
func (c *client) resumeSession() (code int, why string) {
	k := c.exchange.session
	ctx, cancel := context.WithCancel(c.life.context())
	defer cancel()
	defer c.server.limitResume(c.exchange.shard, cancel)()
	c.server.webSockets.pacer.SessionLost()
	defer c.server.webSockets.pacer.SessionResumed()
	k.wait.Store(&cancel)
	defer k.wait.Store(nil)
	// The deadline also ends an attempt to which the app does not respond.
	stop := context.AfterFunc(ctx, c.cancelUnanswered)
	defer stop()
	c.wait.attemptContext = ctx //nolint:fatcontext // reset on return
	defer func() { c.wait.attemptContext = nil }()
	c.exchange.prepareRetry(maxResumeWaits * c.server.options.ResumeTimeout)
	for {
		k.delivered, k.relayStarted, k.refused = false, false, 0
		c.routeUntilAnswered(c.attemptNow())
		if k.delivered {
			k.resumed++
			k.gap = k.gap || !k.relayStarted
		}
		switch {
		case c.closing.Load() || k.relayStarted:
			c.exchange.leaveQueue()
			return 0, ""
		case k.refused != 0:
			c.exchange.leaveQueue()
			return k.refused, cmp.Or(k.closeReason, wsession.ReasonRefused)
		}
		c.exchange.tries, c.exchange.reusedTries, c.exchange.responsesBegun, c.exchange.notAcquired = 0, 0, 0, 0
		// After the pause, the next attempt uses the newest table.
		v := decision{action: actionWait, reason: route.ReasonUnreachable, backoff: true, generation: c.server.options.Cluster.Table().Generation()}
		if ctx.Err() != nil || c.waitFor(v).action != actionRetry {
			c.exchange.leaveQueue()
			if c.server.closing.Load() {
				return wsession.CloseMoved, wsession.ReasonOf(wsession.CloseLeaving)
			}
			return wsession.CloseMoved, wsession.ReasonLate
		}
	}
}

// cancelUnanswered cancels the run unless its response has begun.
func (c *client) cancelUnanswered() {
	closes, _ := c.slot.cancel(causeTimeout, func(r run, _ string) bool { return r.flags&slotResponseBegun == 0 }, nil)
	closeAll(closes)
}

// prepareRetry resets the exchange before the request of the next relay is sent. The safety is set
// to unsafeMethod, because a request that may have reached an app must not be repeated with the
// same attempt number.
func (x *exchange) prepareRetry(wait time.Duration) {
	x.leaveQueue()
	x.safety, x.deadline, x.pause = unsafeMethod, time.Now().Add(wait), 0
	x.tries, x.reusedTries, x.responsesBegun, x.notAcquired, x.lastCrash, x.runAborted = 0, 0, 0, 0, nil, false
	x.noStreams = false // the next attempt uses another multiplexed session
}

// handleDeclined ends an attempt to resume a session that has received a response other than 101. A
// response of the app is final. After an error response of another node, another attempt may
// follow.
func (c *client) handleDeclined(p *attempt) decision {
	res := &p.conn.res
	switch word := res.Known(h1.FieldShardwayError); {
	case p.route.Kind != route.Remote || word == nil:
		c.exchange.session.refused = closesWith(res)
		p.conn.pool.noteResumed()
	case neverSent(problem.Code(word)):
		c.exchange.noteNotDelivered()
	}
	p.abort()
	return done
}

// neverSent reports whether an owner that responds with the problem code has sent nothing to its
// app.
func neverSent(code problem.Code) bool {
	switch code { //nolint:exhaustive // after any other code, the request may have reached the app
	case problem.UpstreamBusy, problem.ShardBusy, problem.UpstreamRefused, problem.UpstreamConnectTimeout,
		problem.QueueFull, problem.QueueTimeout, problem.Misrouted:
		return true
	}
	return false
}
