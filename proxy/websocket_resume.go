package proxy

import (
	"cmp"
	"context"
	"sync/atomic"
	"time"

	"shardway/internal/problem"
	"shardway/proxy/cause"
	"shardway/proxy/connlife"
	"shardway/proxy/h1"
	"shardway/proxy/inflight"
	"shardway/proxy/route"
	"shardway/proxy/wsession"
	"shardway/proxy/wsframe"
	"shardway/proxy/wsrelay"
)

// startSession handles a 101 response of the app: it turns the request into a relay of WebSocket frames, and sends the
// response to the client, or to the ingress. The relay itself runs after the request flow has returned. startSession
// returns false if the run has already been cancelled.
//
// The order matters. The relay is first published in the slot, so that a cancellation from here on reaches it. Then
// the request gives up what only requests use: its connection of the pool, its place in the queue of its key, and the
// limit of concurrent upgrades. The session is recorded before the response is sent, because the client may send a
// frame, or lose its connection, as soon as it has the response.
func (rr *responseRelay) startSession(attempt *attempt) bool {
	session, isResumption := rr.exchange.session, rr.exchange.isResumption()
	toClient, toApp := rr.ingress == "", attempt.route.Kind == route.Local
	relay := &webSocketRun{attempt: *attempt, load: rr.exchange.loadCounters(&rr.server.load, attempt.route.Kind)}
	relay.Instance, relay.ProcessEnded = attempt.route.Instance, attempt.conn.ProcessEnded
	relay.Init(&rr.server.webSockets.relays, session, rr.upgradeConn(), attempt.conn.Conn, toClient, toApp)
	rr.slot.WebSocket.Store(&relay.Relay)
	if !rr.slot.SetFlags(inflight.ResponseBegun | inflight.Tunnel | inflight.WebSocket) {
		rr.slot.WebSocket.Store(nil)
		return false
	}
	rr.webSocket = relay
	rr.server.webSockets.adjustRunning(relay, 1)
	if toApp {
		attempt.conn.Pool.Detach(attempt.conn, nil)
		rr.admission.releasePermits()
	}
	rr.exchange.connAborted, session.RelayStarted = true, true
	session.ReleaseUpgrade()
	attempt.conn.Pool.Breaker.OnAccepted()
	if isResumption {
		attempt.conn.Pool.RecordResume()
	}
	rr.recordWebSocketPath(attempt, false)
	if isResumption && !toApp {
		attempt.conn.Pool.RecordUpgradeResponse(attempt.conn)
		attempt.conn.Pool.UpgradeBackoff.OnAccepted(0)
	}
	rr.recordResponse(&attempt.conn.Response)
	if toClient {
		rr.recordStart(session)
		session.RecordStart(&attempt.conn.Response, &rr.server.webSockets.replays)
		rr.takeFirstMessage() // the session has a copy, so the buffer is discarded
	}
	relay.ResponseSent = isResumption || rr.clientHasUpgraded() || rr.writeSwitchingProtocols(attempt, !toClient)
	if toClient {
		sessionLog{rr.requestState}.logRelayStart()
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
	if attempt.conn.Response.Value(wsrelay.Header) != nil {
		edit.Drop |= h1.FieldSetOf(h1.FieldShardwayOther)
	}
	if confirmsSession {
		rr.extraLines = append(rr.extraLines, wsrelay.Header+": "...)
		rr.extraLines = wsrelay.AppendAccepted(rr.extraLines, wsrelay.ReplayOf(&attempt.conn.Response))
		rr.extraLines = append(rr.extraLines, "\r\n"...)
		edit.Extra = rr.extraLines
	}
	return rr.inbound.WriteResponseHeader(&attempt.conn.Response, edit).Close(nil) == nil
}

// sessionResumer resumes the session of a WebSocket at its ingress: it repeats the request of the
// session until an app accepts it, which starts the next relay.
type sessionResumer struct {
	*requestState
	router  *router
	wait    *requestWait
	relay   *responseRelay
	slot    *inflight.Slot
	closing *atomic.Bool // client.closing
	life    *connlife.Lifetime
}

// runNextRelays starts the later relays of a session until it has none, and then closes the client's
// connection. It returns as soon as a relay has started; the connection's goroutine then runs that
// relay and calls runNextRelays again.
func (resumer *sessionResumer) runNextRelays() {
	session := resumer.exchange.session
	if session == nil || resumer.relay.hasWebSocket() {
		return
	}
	for session.NeedsRelay && !resumer.closing.Load() {
		session.NeedsRelay = false
		if code, reason := resumer.resumeSession(); code != 0 {
			session.CloseCode, session.CloseReason = code, reason
		}
		if resumer.relay.hasWebSocket() {
			return
		}
		resumer.recordResumeFailure()
	}
	if resumer.closing.Load() {
		return
	}
	if session.CloseCode != 0 {
		session.CloseFrameSent = writeCloseFrame(resumer.upgradeConn(), session.CloseCode, session.CloseReason)
	}
	if session.CloseFrameSent {
		resumer.upgradeConn().CloseLinger(h1.WholeRequest)
	}
}

// writeCloseFrame sends a close frame to the client. An empty reason means the default one of the code.
// It returns false after an error.
func writeCloseFrame(client *h1.Conn, code int, reason string) bool {
	writer := client.Writer()
	writer.BeginBody(h1.UntilClose, 0)
	writer.SetPrecondition(func() (time.Duration, error) { return wsession.CloseFrameTimeout, nil })
	_, _ = writer.Write(wsframe.AppendClose(nil, code, cmp.Or(reason, wsession.DefaultReason(code)), false)) // an error does not matter, because the connection ends in any case
	return writer.Flush() == nil
}

// resumeSession repeats the request of a session until an app accepts it or the time limit of the
// session has passed. If an app accepts it, the next relay has started and code is zero. Otherwise
// code and reason describe the close frame for the client.
func (resumer *sessionResumer) resumeSession() (code int, reason string) {
	session := resumer.exchange.session
	ctx, cancel := context.WithCancel(resumer.life.Context())
	defer cancel()
	defer resumer.server.webSockets.limitResume(resumer.exchange.shard, cancel)()
	resumer.server.webSockets.pacer.RecordSessionLost()
	defer resumer.server.webSockets.pacer.RecordSessionResumed()
	session.CancelWait.Store(&cancel)
	defer session.CancelWait.Store(nil)
	// The deadline also ends an attempt that gets no response from the app.
	stop := context.AfterFunc(ctx, resumer.cancelUnanswered)
	defer stop()
	resumer.wait.attemptContext = ctx
	defer func() { resumer.wait.attemptContext = nil }()
	resumer.exchange.prepareRetry(maxResumeWaits * resumer.server.options.ResumeTimeout)
	for {
		session.MayHaveReachedApp, session.RelayStarted, session.RefusalCode = false, false, 0
		resumer.router.routeUntilAnswered(resumer.router.attemptByCurrentTable())
		if session.MayHaveReachedApp {
			session.ResumeAttempts++
			session.MessagesMayBeLost = session.MessagesMayBeLost || !session.RelayStarted
		}
		switch {
		case resumer.closing.Load() || session.RelayStarted:
			resumer.exchange.finishQueueing()
			return 0, ""
		case session.RefusalCode != 0:
			resumer.exchange.finishQueueing()
			return session.RefusalCode, cmp.Or(session.CloseReason, wsession.ReasonRefused)
		}
		resumer.exchange.tries, resumer.exchange.reusedConnAttempts, resumer.exchange.responsesBegun, resumer.exchange.notAcquiredCount = 0, 0, 0, 0
		// After the pause, the next attempt uses the newest table.
		result := decision{action: actionWait, reason: route.ReasonUnreachable, backoff: true, generation: resumer.server.options.Cluster.Table().Generation()}
		if ctx.Err() != nil || resumer.router.waitFor(result).action != actionRetry {
			resumer.exchange.finishQueueing()
			if resumer.server.lifecycle.IsStopping() {
				return wsession.CloseShardMoved, wsession.DefaultReason(wsession.CloseNodeLeaving)
			}
			return wsession.CloseShardMoved, wsession.ReasonTimedOut
		}
	}
}

// cancelUnanswered cancels the run unless its response has begun.
func (resumer *sessionResumer) cancelUnanswered() {
	toClose, _ := resumer.slot.Cancel(cause.Timeout, func(current inflight.Run, _ string) bool { return current.Flags&inflight.ResponseBegun == 0 }, nil)
	inflight.CloseAll(toClose)
}

// prepareRetry resets the exchange before the request of the next relay is sent. It sets safety to
// unsafeMethod, because a request that may have reached an app must not be repeated with the same
// attempt number.
func (exchange *exchange) prepareRetry(wait time.Duration) {
	exchange.finishQueueing()
	exchange.safety, exchange.deadline, exchange.lastPause = unsafeMethod, time.Now().Add(wait), 0
	exchange.tries, exchange.reusedConnAttempts, exchange.responsesBegun, exchange.notAcquiredCount, exchange.lastCrash, exchange.runAborted = 0, 0, 0, 0, nil, false
	exchange.avoidStreams = false // the next attempt uses a different multiplexed session
}

// decideAfterDecline ends an attempt to resume a session that has received a response other than
// 101. A response of the app is final. An error response of another node permits another attempt.
func (retry *retrier) decideAfterDecline(attempt *attempt) decision {
	res := &attempt.conn.Response
	switch word := res.Known(h1.FieldShardwayError); {
	case attempt.route.Kind != route.Remote || word == nil:
		retry.exchange.session.RefusalCode = wsrelay.CloseCodeFor(res)
		attempt.conn.Pool.RecordResume()
	case ownerSentNothing(problem.Code(word)):
		retry.exchange.markNotDelivered()
	}
	attempt.abort()
	return done
}

// ownerSentNothing reports whether an owner that responds with this problem code has sent nothing
// to its app.
func ownerSentNothing(code problem.Code) bool {
	switch code { //nolint:exhaustive // after any other code, the request may have reached the app
	case problem.UpstreamBusy, problem.ShardBusy, problem.KeyBusy, problem.UpstreamRefused, problem.UpstreamConnectTimeout,
		problem.QueueFull, problem.QueueTimeout, problem.Misrouted:
		return true
	}
	return false
}
