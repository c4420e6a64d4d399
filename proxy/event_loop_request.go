package proxy

import (
	"time"

	"shardway/proxy/eventloop"
	"shardway/proxy/eventrelay"
	"shardway/proxy/h1"
	"shardway/proxy/route"
)

// This file contains the steps of a request that an event loop (eventloop.Loop) executes; it makes
// client an eventloop.Handler. HandleReadable reads the request and sends it to the app; it
// corresponds to readRequest, handleRequest and the first half of the attempt. HandleResponse executes
// the remaining steps. The steps and their order are the same as in serve.go and attempt_runner.go.
//
// A request that would block, or that needs a step which the event loop does not support, continues
// in a goroutine. If the event loop has not started an attempt, the goroutine runs handleRequest
// from its beginning (eventloop.ResumeRequest).

// loopAttempt is an attempt started by an event loop.
type loopAttempt struct {
	attempt
	startedAt           time.Duration
	clientBytesBefore   int64    // bytes sent to the client before the attempt
	upstreamBytesBefore int64    // bytes sent to the app on the connection before the attempt
	decision            decision // result of the attempt, for eventloop.ResumeDecision
}

// HandleReadable reads the next request and sends it to the app. It never blocks: if the request
// cannot be read or sent completely now, a goroutine continues.
func (c *client) HandleReadable() {
	if !c.loopClient.ReadRequest(&c.req) {
		return
	}
	c.idle.start.Store(0)
	c.useSettings(c.server.settings.Load())
	if !c.startAttempt() {
		c.loopClient.HandOff(eventloop.ResumeRequest)
		return
	}
	attempt := &c.loopAttempt.attempt
	if result := c.runner.sendRequest(attempt); result.action != 0 {
		c.runner.recordRun(attempt, result, c.loopAttempt.startedAt, c.loopAttempt.clientBytesBefore)
		c.loopAttempt.decision = result
		c.loopClient.HandOff(eventloop.ResumeDecision)
		return
	}
	c.loopClient.ResumeAt = eventloop.ResumeResponse
	if attempt.conn.Writer().Pending() > 0 {
		c.loopClient.HandOff(eventloop.ResumeResponse)
	}
}

// startAttempt starts an attempt of an ordinary request at this node's app. If it returns false, no
// attempt was started, and the request must run in a goroutine.
func (c *client) startAttempt() bool {
	if !c.isLoopable() {
		c.loopClient.Eligibility.RecordMiss()
		return false
	}
	c.beginExchange()
	table := c.server.options.Cluster.Table()
	keys := c.keysBy(table)
	c.keys.Keys = keys
	found, invalid := c.keys.Find(false)
	if invalid != nil || found.Keyless || found.NeedsBody || table.Shards() == 0 {
		c.loopClient.Eligibility.RecordMiss()
		return false
	}
	c.exchange.Found, c.exchange.keys, c.exchange.service = found, keys, c.keys.Service()
	if !c.exchange.resolveShard(table) {
		return false
	}
	dest := table.Route(c.exchange.shard)
	if dest.Kind != route.Local || c.router.isQuarantined() {
		if dest.Kind == route.Remote {
			c.loopClient.Eligibility.RecordMiss()
		}
		return false
	}
	if !c.sendsChecked() { // without SendChecked, sending the request may block
		c.loopClient.Eligibility.RecordMiss()
		return false
	}
	pool := c.server.upstreams.App(dest.Instance)
	if pool == nil || !c.server.upstreams.RunsInstance(c.exchange.service, dest.Instance) {
		return false
	}
	conn := c.wait.acquireIdleConn(pool, c.loopClient.Loop())
	if conn == nil {
		return false
	}
	if !conn.CanBeCheckedOnSend() || !c.loopClient.RegisterUpstream(conn) {
		pool.Put(conn)
		return false
	}
	attempt := &c.loopAttempt.attempt
	if result := c.router.admitAttempt(attempt, conn, table, dest); result.action != 0 {
		return false
	}
	c.server.budget.Earn()
	c.exchange.sample = c.server.load.Sample(c.exchange.Key)
	c.runner.bindAttempt(attempt)
	c.loopAttempt.startedAt, c.loopAttempt.clientBytesBefore = c.runner.startTimer()
	c.loopAttempt.upstreamBytesBefore = conn.Sent()
	return true
}

// isLoopable reports whether an event loop can serve the request that has been read. Such a request
// has arrived completely and uses no special feature.
func (c *client) isLoopable() bool {
	req := &c.req
	if !req.KeepAlive() || c.isDraining() || req.RequestsUpgrade() || req.ExpectsContinue() || c.writesAccessLog() || c.settings.limitsKeys() || c.settings.changesHeaders() {
		return false
	}
	if c.settings.ProbePath != "" && string(req.Path()) == c.settings.ProbePath || c.isHookPath() {
		return false
	}
	if req.Body.Done() {
		return true
	}
	c.body.Reset() // the buffer of the previous body may have been discarded because it was too large
	if c.limitBody() {
		return false
	}
	return c.body.ReadAvailable() == nil && req.Body.Done()
}

// HandleResponse reads the response of the app and sends it to the client. It does nothing if the
// response header is incomplete.
func (c *client) HandleResponse() {
	attempt := &c.loopAttempt.attempt
	res := &attempt.conn.Response
	switch found := attempt.conn.TryReadResponse(res, c.req.Method()); {
	case found == h1.ParseNoData, found == h1.ParseIncomplete:
		return
	case found == h1.ParseMustBlock, eventrelay.IsEvents(res):
		c.loopClient.Eligibility.RecordMiss()
		c.loopClient.HandOff(eventloop.ResumeResponse)
		return
	}
	attempt.conn.ConsumeResponse(res)
	attempt.conn.Pool.MarkProven(attempt.conn)
	if attempt.route.Kind == route.Local {
		c.server.appSilence.RecordResponse(c.server.clock.Now())
	}
	c.reply.logRepairs(res)
	c.loopClient.ReleaseUpstream()
	result := c.runner.processResponse(attempt)
	c.runner.recordRun(attempt, result, c.loopAttempt.startedAt, c.loopAttempt.clientBytesBefore)
	switch {
	case result.action != actionDone:
		c.loopAttempt.decision = result
		c.loopClient.HandOff(eventloop.ResumeDecision)
	case c.exchange.endUnsent:
		c.loopClient.HandOff(eventloop.ResumeUnsent)
	default:
		c.server.metrics.EventLoopRequests.Add(1)
		c.finishExchange()
		c.finishInLoop()
	}
}

// finishInLoop finishes a request whose response has been sent, and prepares the connection for the
// next request.
func (c *client) finishInLoop() {
	c.body.ReleaseBuffer()
	if !c.exchange.keepAlive || c.exchange.connAborted || !c.req.Body.Done() {
		c.loopClient.HandOff(eventloop.ResumeFinish)
		return
	}
	c.idle.start.Store(int64(c.server.clock.Now()))
	c.loopClient.AwaitNext()
}

// HandlePanic ends the request that panicked in an event loop, as handleRequest does, and closes the
// connection.
func (c *client) HandlePanic(value any) {
	if c.exchange.isOpen() {
		c.finishExchange()
	}
	c.closeAfterPanic(value)
}

// MustLeaveLoop reports whether the connection must end or be parked. The loop checks this when the
// connection joins, because an earlier wakeup did not reach the loop.
func (c *client) MustLeaveLoop() bool { return c.IsEnding() || c.idle.parkRequested.Load() }

// ResumeInGoroutine gives a client that has left its event loop to a worker goroutine.
func (c *client) ResumeInGoroutine() { c.listener.resume(c) }

// resumeExchange completes a request that an event loop started and handed off at the given step.
func (c *client) resumeExchange(resumeAt eventloop.ResumePoint) {
	defer c.finishExchange()
	started := &c.loopAttempt
	if resumeAt == eventloop.ResumeUnsent {
		c.exchange.connAborted = c.conn.Flush() != nil
		return
	}
	result := started.decision
	if resumeAt == eventloop.ResumeResponse {
		c.disconnect.Arm()
		result = c.awaitResumed(started)
		c.runner.recordRun(&started.attempt, result, started.startedAt, started.clientBytesBefore)
	}
	c.router.routeUntilAnswered(started.table, result)
	c.exchange.finishQueueing()
	c.resumer.runNextRelays()
}

// awaitResumed sends the part of the request that the event loop could not send without blocking.
// Then it waits for the response, like awaitResponse.
func (c *client) awaitResumed(started *loopAttempt) decision {
	switch err := started.conn.Flush(); {
	case err == nil:
		return c.runner.awaitResponse(&started.attempt)
	case started.conn.Sent() == started.upstreamBytesBefore:
		return c.retrier.decideAfterSendFailure(&started.attempt, err)
	default:
		return c.retrier.decideAfterBreak(&started.attempt, err)
	}
}

// joinLoop reports whether an event loop takes over the connection, to wait for the next request
// and serve it. If it returns true, the caller must not use the connection any more.
func (c *client) joinLoop() bool {
	mustStay := len(c.conn.Buffered()) > 0 || c.writesAccessLog() || c.isDraining() || c.idle.parkRequested.Load()
	return c.loopClient.IsEnabled() && !mustStay && !c.IsEnding() && c.loopClient.BeginJoin()
}

// requestPark asks the goroutine or the event loop that owns an idle connection to park it.
func (c *client) requestPark() {
	if c.loopClient.Loop() == nil {
		c.conn.RequestPark()
		return
	}
	c.idle.parkRequested.Store(true)
	c.loopClient.Wake()
}
