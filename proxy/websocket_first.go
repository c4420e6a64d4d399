package proxy

import (
	"shardway/internal/problem"
	"shardway/proxy/h1"
	"shardway/proxy/route"
	"shardway/proxy/wsession"
	"shardway/proxy/wsfirst"
)

// The key of a WebSocket may be in its first message (key sources ws-json and ws-first). In that
// case the node accepts the WebSocket itself, reads the message, and then routes the client's
// upgrade request like any other request. Once the app has accepted it, the app receives the
// message before all other data.
//
// After the node's 101 response, errors are reported to the client in a close frame instead of an
// error response. exchange.accepted is set for such a request.

// findKeyInMessage accepts the WebSocket of the request, and finds the key in its first message. It
// returns false if the request has ended, after a response or a close frame.
func (c *client) findKeyInMessage(protocols []string) bool {
	if invalid := wsfirst.CheckUpgrade(&c.req); invalid != nil {
		c.reply.sendProblem(invalid)
		return false
	}
	protocol, invalid := wsfirst.SelectProtocol(&c.req, protocols)
	if invalid != nil {
		c.reply.sendProblem(invalid)
		return false
	}
	if !c.readFirstMessage(protocol) {
		c.finishAccepted()
		return false
	}
	c.endTotalTimeout()
	c.keys.FirstMessage = c.exchange.accepted.Message
	isKnown := c.findKey()
	result := wsession.FirstHasKey
	if !isKnown || c.exchange.Keyless {
		result = wsession.FirstHasNoKey
	}
	c.server.metrics.FirstMessages[result].Add(1)
	if !isKnown {
		c.finishAccepted()
	}
	return isKnown
}

// readFirstMessage accepts the WebSocket of the request, and reads its first message. After a failure,
// it returns false, and exchange.accepted contains the close frame.
func (c *client) readFirstMessage(protocol string) bool {
	conn := c.upgradeConn()
	accepted := &wsfirst.Accepted{Protocol: protocol}
	c.exchange.accepted, c.exchange.connAborted, c.escaped = accepted, true, true
	var place wsfirst.Place
	c.server.firstMessages.Enter(&place, c.keys.ClientIP(), conn.PauseRead)
	writer := conn.Writer()
	writer.Put(accepted.AppendSwitching(nil, &c.req, c.server.clock.Date()))
	failure := wsfirst.Disconnected()
	if writer.Flush() == nil {
		failure = accepted.Read(conn)
	}
	if c.server.firstMessages.Leave(&place) {
		conn.ResumeRead()
	}
	conn.ReleaseEmptyBuffers()
	if failure != nil {
		c.server.metrics.FirstMessages[failure.Result].Add(1)
		c.recordClosed(failure.Code)
		accepted.CloseCode, accepted.CloseReason = failure.CloseCode, failure.Reason
	}
	return failure == nil
}

// finishAccepted sends the close frame to the client of a WebSocket that this node has accepted but
// the app has not.
func (c *client) finishAccepted() {
	accepted := c.exchange.accepted
	if accepted == nil || accepted.CloseCode == 0 || c.closing.Load() {
		return
	}
	conn := c.upgradeConn()
	if writeCloseFrame(conn, accepted.CloseCode, accepted.CloseReason) {
		conn.CloseLinger(h1.WholeRequest)
	}
}

// closeAccepted ends a request because of a problem after its client has received this node's 101
// response.
func (reply reply) closeAccepted(prob *problem.Problem) {
	reply.exchange.accepted.SetProblem(prob)
	reply.recordClosed(prob.Code)
	reply.server.options.Log.Debug().Str("error", string(prob.Code)).Int("close_code", reply.exchange.accepted.CloseCode).
		Uint32("shard", uint32(reply.exchange.shard)).Str("detail", prob.Detail).Msg("WebSocket refused after its first message")
}

// recordClosed records the response of a WebSocket that this node has accepted but the app has not.
func (state *requestState) recordClosed(code problem.Code) {
	const switchingProtocols = 101
	state.exchange.account.RecordResponse(switchingProtocols, nil, state.exchange.lastRoute)
	state.exchange.account.Code = code
	state.server.metrics.CountResponse(state.exchange.routeKind(), switchingProtocols)
	if code != "" {
		state.server.metrics.CountProblem(code)
	}
}

// declineAccepted ends an attempt whose app has not accepted the WebSocket that this node has already
// accepted. The client receives a close frame.
func (runner *attemptRunner) declineAccepted(attempt *attempt) decision {
	res := &attempt.conn.Response
	runner.exchange.finishQueueing()
	if code := res.Known(h1.FieldShardwayError); attempt.route.Kind == route.Remote && len(code) > 0 {
		runner.exchange.accepted.SetProblem(&problem.Problem{Code: problem.Code(code), Status: res.Status()})
	} else {
		runner.exchange.accepted.SetRefusal(res)
	}
	attempt.conn.Pool.Breaker.OnAccepted()
	runner.reply.recordResponse(res)
	attempt.abort()
	return done
}

// refusesAccepted ends an attempt whose app has accepted the WebSocket with different parameters
// than this node. It returns false if the WebSocket can begin.
func (rr *responseRelay) refusesAccepted(attempt *attempt) bool {
	accepted := rr.exchange.accepted
	if accepted == nil || rr.exchange.isResumption() {
		return false
	}
	reason := accepted.Mismatch(&attempt.conn.Response, &rr.req)
	if reason == "" {
		return false
	}
	accepted.CloseCode, accepted.CloseReason = wsession.CloseInternal, reason
	attempt.conn.Pool.Breaker.OnAccepted()
	rr.recordResponse(&attempt.conn.Response)
	attempt.abort()
	return true
}

// clientHasUpgraded reports whether the client has the 101 response of this node.
func (state *requestState) clientHasUpgraded() bool { return state.exchange.accepted != nil }

// takeFirstMessage returns and drops the frame of the first message, which the app receives first.
// It returns nil if this node has read none.
func (state *requestState) takeFirstMessage() []byte {
	if state.exchange.accepted == nil {
		return nil
	}
	return state.exchange.accepted.TakeFrame()
}
