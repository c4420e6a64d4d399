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
	session, later := rr.exchange.session, rr.exchange.isResumption()
	relay := newWebSocketRelay(rr, attempt)
	rr.slot.webSocket.Store(relay)
	if !rr.slot.mark(slotResponseBegun | slotTunnel | slotWebSocket) {
		rr.slot.webSocket.Store(nil)
		return false
	}
	rr.webSocket = relay
	relay.addRunning(1)
	if relay.toApp {
		attempt.conn.Pool.Detach(attempt.conn, nil)
	}
	rr.exchange.aborted, session.relayStarted = true, true
	session.releaseUpgrade()
	attempt.conn.Pool.Breaker.OnAccepted()
	if later {
		attempt.conn.Pool.RecordResume()
	}
	rr.noteWebSocketPath(attempt, false)
	if later && !relay.toApp {
		attempt.conn.Pool.UpgradeResponded(attempt.conn)
		attempt.conn.Pool.UpgradeBackoff.OnAccepted(0)
	}
	rr.answered(&attempt.conn.Response)
	if relay.toClient {
		rr.recordStart(session)
		session.gap = false
		if session.relays++; session.relays == 1 {
			session.protocol = string(attempt.conn.Response.Value("Sec-WebSocket-Protocol"))
		}
	}
	relay.responseSent = later || rr.writeSwitchingProtocols(attempt, !relay.toClient)
	if relay.toClient {
		sessionLog{rr.requestState}.relayStarted()
	}
	rr.releaseBuffers(attempt)
	return true
}

// writeSwitchingProtocols sends a 101 response without the app's headers about the session. kept
// adds the header that confirms to the ingress that the session is resumable. It returns false
// after an error.
func (rr *responseRelay) writeSwitchingProtocols(attempt *attempt, kept bool) bool {
	edit := rr.head(attempt.route, &attempt.conn.Response)
	edit.Upgrade, edit.Close, edit.KeepAlive = true, false, false
	if attempt.conn.Response.Value(headerWebSocket) != nil {
		edit.Drop |= h1.FieldSetOf(h1.FieldShardwayOther)
	}
	if kept {
		rr.extra = append(rr.extra, headerWebSocket+": "+valueAccepted+"\r\n"...)
		edit.Extra = rr.extra
	}
	return rr.conn.WriteResponseHeader(&attempt.conn.Response, edit).Close(nil) == nil
}

// resume starts the later relays of a session until it has none, and then closes the client's
// connection. It returns as soon as a relay has started; the connection's goroutine then runs that
// relay and calls resume again.
func (c *client) resume() {
	session := c.exchange.session
	if session == nil || c.hasRelay() {
		return
	}
	for session.resumes && !c.closing.Load() {
		session.resumes = false
		if code, why := c.resumeSession(); code != 0 {
			session.closeCode, session.closeReason = code, why
		}
		if c.hasRelay() {
			return
		}
		c.recordLost()
	}
	if c.closing.Load() {
		return
	}
	if session.closeCode != 0 {
		writer := c.conn.Writer()
		writer.BeginBody(h1.UntilClose, 0)
		writer.SetPrecondition(func() (time.Duration, error) { return closeFrameWrite, nil })
		_, _ = writer.Write(wsframe.AppendClose(nil, session.closeCode, cmp.Or(session.closeReason, wsession.ReasonOf(session.closeCode)), false)) // an error does not matter, because the connection ends in any case
		session.lingers = writer.Flush() == nil
	}
	if session.lingers {
		c.conn.CloseLinger(h1.WholeRequest)
	}
}

// resumeSession repeats the request of a session until an app accepts it or the time limit of the
// session has passed. If an app accepts it, the next relay has started and code is zero. Otherwise
// code and why describe the close frame for the client.
func (c *client) resumeSession() (code int, why string) {
	session := c.exchange.session
	ctx, cancel := context.WithCancel(c.life.context())
	defer cancel()
	defer c.server.limitResume(c.exchange.shard, cancel)()
	c.server.webSockets.pacer.SessionLost()
	defer c.server.webSockets.pacer.SessionResumed()
	session.wait.Store(&cancel)
	defer session.wait.Store(nil)
	// The deadline also ends an attempt to which the app does not respond.
	stop := context.AfterFunc(ctx, c.cancelUnanswered)
	defer stop()
	c.wait.attemptContext = ctx //nolint:fatcontext // reset on return
	defer func() { c.wait.attemptContext = nil }()
	c.exchange.prepareRetry(maxResumeWaits * c.server.options.ResumeTimeout)
	for {
		session.delivered, session.relayStarted, session.refused = false, false, 0
		c.router.routeUntilAnswered(c.router.attemptNow())
		if session.delivered {
			session.resumed++
			session.gap = session.gap || !session.relayStarted
		}
		switch {
		case c.closing.Load() || session.relayStarted:
			c.exchange.leaveQueue()
			return 0, ""
		case session.refused != 0:
			c.exchange.leaveQueue()
			return session.refused, cmp.Or(session.closeReason, wsession.ReasonRefused)
		}
		c.exchange.tries, c.exchange.reusedTries, c.exchange.responsesBegun, c.exchange.notAcquired = 0, 0, 0, 0
		// After the pause, the next attempt uses the newest table.
		result := decision{action: actionWait, reason: route.ReasonUnreachable, backoff: true, generation: c.server.options.Cluster.Table().Generation()}
		if ctx.Err() != nil || c.router.waitFor(result).action != actionRetry {
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
	closes, _ := c.slot.cancel(causeTimeout, func(current run, _ string) bool { return current.flags&slotResponseBegun == 0 }, nil)
	closeAll(closes)
}

// prepareRetry resets the exchange before the request of the next relay is sent. The safety is set
// to unsafeMethod, because a request that may have reached an app must not be repeated with the
// same attempt number.
func (exchange *exchange) prepareRetry(wait time.Duration) {
	exchange.leaveQueue()
	exchange.safety, exchange.deadline, exchange.pause = unsafeMethod, time.Now().Add(wait), 0
	exchange.tries, exchange.reusedTries, exchange.responsesBegun, exchange.notAcquired, exchange.lastCrash, exchange.runAborted = 0, 0, 0, 0, nil, false
	exchange.noStreams = false // the next attempt uses another multiplexed session
}

// handleDeclined ends an attempt to resume a session that has received a response other than 101. A
// response of the app is final. After an error response of another node, another attempt may
// follow.
func (retry *retrier) handleDeclined(attempt *attempt) decision {
	res := &attempt.conn.Response
	switch word := res.Known(h1.FieldShardwayError); {
	case attempt.route.Kind != route.Remote || word == nil:
		retry.exchange.session.refused = closesWith(res)
		attempt.conn.Pool.RecordResume()
	case neverSent(problem.Code(word)):
		retry.exchange.noteNotDelivered()
	}
	attempt.abort()
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
