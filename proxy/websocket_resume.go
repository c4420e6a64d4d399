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
func (rr *responseRelay) startSession(attempt *attempt) bool {
	session, isResumption := rr.exchange.session, rr.exchange.isResumption()
	relay := newWebSocketRelay(rr, attempt)
	rr.slot.webSocket.Store(relay)
	if !rr.slot.setFlags(slotResponseBegun | slotTunnel | slotWebSocket) {
		rr.slot.webSocket.Store(nil)
		return false
	}
	rr.webSocket = relay
	relay.addRunning(1)
	if relay.toApp {
		attempt.conn.Pool.Detach(attempt.conn, nil)
	}
	rr.exchange.connAborted, session.relayStarted = true, true
	session.releaseUpgrade()
	attempt.conn.Pool.Breaker.OnAccepted()
	if isResumption {
		attempt.conn.Pool.RecordResume()
	}
	rr.noteWebSocketPath(attempt, false)
	if isResumption && !relay.toApp {
		attempt.conn.Pool.UpgradeResponded(attempt.conn)
		attempt.conn.Pool.UpgradeBackoff.OnAccepted(0)
	}
	rr.recordResponse(&attempt.conn.Response)
	if relay.toClient {
		rr.recordStart(session)
		session.messagesMayBeLost = false
		if session.relays++; session.relays == 1 {
			session.protocol = string(attempt.conn.Response.Value("Sec-WebSocket-Protocol"))
		}
	}
	relay.responseSent = isResumption || rr.writeSwitchingProtocols(attempt, !relay.toClient)
	if relay.toClient {
		sessionLog{rr.requestState}.relayStarted()
	}
	rr.releaseBuffers(attempt)
	return true
}

// writeSwitchingProtocols sends a 101 response without the app's headers about the session.
// confirmsSession adds the header that confirms to the ingress that the session is resumable. It
// returns false after an error.
func (rr *responseRelay) writeSwitchingProtocols(attempt *attempt, confirmsSession bool) bool {
	edit := rr.editHeaders(attempt.route, &attempt.conn.Response)
	edit.Upgrade, edit.Close, edit.KeepAlive = true, false, false
	if attempt.conn.Response.Value(headerWebSocket) != nil {
		edit.Drop |= h1.FieldSetOf(h1.FieldShardwayOther)
	}
	if confirmsSession {
		rr.extraLines = append(rr.extraLines, headerWebSocket+": "+valueAccepted+"\r\n"...)
		edit.Extra = rr.extraLines
	}
	return rr.conn.WriteResponseHeader(&attempt.conn.Response, edit).Close(nil) == nil
}

// runNextRelays starts the later relays of a session until it has none, and then closes the client's
// connection. It returns as soon as a relay has started; the connection's goroutine then runs that
// relay and calls runNextRelays again.
func (c *client) runNextRelays() {
	session := c.exchange.session
	if session == nil || c.hasRelay() {
		return
	}
	for session.needsRelay && !c.closing.Load() {
		session.needsRelay = false
		if code, reason := c.resumeSession(); code != 0 {
			session.closeCode, session.closeReason = code, reason
		}
		if c.hasRelay() {
			return
		}
		c.recordResumeFailure()
	}
	if c.closing.Load() {
		return
	}
	if session.closeCode != 0 {
		writer := c.conn.Writer()
		writer.BeginBody(h1.UntilClose, 0)
		writer.SetPrecondition(func() (time.Duration, error) { return closeFrameTimeout, nil })
		_, _ = writer.Write(wsframe.AppendClose(nil, session.closeCode, cmp.Or(session.closeReason, wsession.DefaultReason(session.closeCode)), false)) // an error does not matter, because the connection ends in any case
		session.closeFrameSent = writer.Flush() == nil
	}
	if session.closeFrameSent {
		c.conn.CloseLinger(h1.WholeRequest)
	}
}

// resumeSession repeats the request of a session until an app accepts it or the time limit of the
// session has passed. If an app accepts it, the next relay has started and code is zero. Otherwise
// code and reason describe the close frame for the client.
func (c *client) resumeSession() (code int, reason string) {
	session := c.exchange.session
	ctx, cancel := context.WithCancel(c.life.context())
	defer cancel()
	defer c.server.limitResume(c.exchange.shard, cancel)()
	c.server.webSockets.pacer.SessionLost()
	defer c.server.webSockets.pacer.SessionResumed()
	session.cancelWait.Store(&cancel)
	defer session.cancelWait.Store(nil)
	// The deadline also ends an attempt to which the app does not respond.
	stop := context.AfterFunc(ctx, c.cancelUnanswered)
	defer stop()
	c.wait.attemptContext = ctx //nolint:fatcontext // reset on return
	defer func() { c.wait.attemptContext = nil }()
	c.exchange.prepareRetry(maxResumeWaits * c.server.options.ResumeTimeout)
	for {
		session.mayHaveReachedApp, session.relayStarted, session.refusalCode = false, false, 0
		c.router.routeUntilAnswered(c.router.attemptByCurrentTable())
		if session.mayHaveReachedApp {
			session.resumeAttempts++
			session.messagesMayBeLost = session.messagesMayBeLost || !session.relayStarted
		}
		switch {
		case c.closing.Load() || session.relayStarted:
			c.exchange.leaveQueue()
			return 0, ""
		case session.refusalCode != 0:
			c.exchange.leaveQueue()
			return session.refusalCode, cmp.Or(session.closeReason, wsession.ReasonRefused)
		}
		c.exchange.tries, c.exchange.triesOnReusedConns, c.exchange.responsesBegun, c.exchange.notAcquiredCount = 0, 0, 0, 0
		// After the pause, the next attempt uses the newest table.
		result := decision{action: actionWait, reason: route.ReasonUnreachable, backoff: true, generation: c.server.options.Cluster.Table().Generation()}
		if ctx.Err() != nil || c.router.waitFor(result).action != actionRetry {
			c.exchange.leaveQueue()
			if c.server.closing.Load() {
				return wsession.CloseShardMoved, wsession.DefaultReason(wsession.CloseNodeLeaving)
			}
			return wsession.CloseShardMoved, wsession.ReasonTimedOut
		}
	}
}

// cancelUnanswered cancels the run unless its response has begun.
func (c *client) cancelUnanswered() {
	closes, _ := c.slot.cancel(causeTimeout, func(current run, _ string) bool { return current.flags&slotResponseBegun == 0 }, nil)
	closeAll(closes)
}

// prepareRetry resets the exchange before the request of the next relay is sent. The safety is set
// to unsafeMethod, because a request that may have reached an app must not be repeated with the
// same attempt number.
func (exchange *exchange) prepareRetry(wait time.Duration) {
	exchange.leaveQueue()
	exchange.safety, exchange.deadline, exchange.lastPause = unsafeMethod, time.Now().Add(wait), 0
	exchange.tries, exchange.triesOnReusedConns, exchange.responsesBegun, exchange.notAcquiredCount, exchange.lastCrash, exchange.runAborted = 0, 0, 0, 0, nil, false
	exchange.avoidStreams = false // the next attempt uses another multiplexed session
}

// handleDeclined ends an attempt to resume a session that has received a response other than 101. A
// response of the app is final. After an error response of another node, another attempt may
// follow.
func (retry *retrier) handleDeclined(attempt *attempt) decision {
	res := &attempt.conn.Response
	switch word := res.Known(h1.FieldShardwayError); {
	case attempt.route.Kind != route.Remote || word == nil:
		retry.exchange.session.refusalCode = closeCodeFor(res)
		attempt.conn.Pool.RecordResume()
	case ownerSentNothing(problem.Code(word)):
		retry.exchange.markNotDelivered()
	}
	attempt.abort()
	return done
}

// ownerSentNothing reports whether an owner that responds with the problem code has sent nothing to its
// app.
func ownerSentNothing(code problem.Code) bool {
	switch code { //nolint:exhaustive // after any other code, the request may have reached the app
	case problem.UpstreamBusy, problem.ShardBusy, problem.UpstreamRefused, problem.UpstreamConnectTimeout,
		problem.QueueFull, problem.QueueTimeout, problem.Misrouted:
		return true
	}
	return false
}
