package proxy

import (
	"time"

	"shardway/proxy/eventrelay"
	"shardway/proxy/h1"
	"shardway/proxy/route"
)

// This file contains the steps of a request that an event loop executes. handleReadable reads the
// request and sends it to the app; it corresponds to readRequest, handleRequest and the first half
// of the attempt. handleResponse executes the remaining steps. The steps and their order are the
// same as in serve.go and attempt_runner.go.
//
// A request that would block, or that needs a step which the event loop does not support, continues
// in a goroutine. If the event loop has not started an attempt, the goroutine runs handleRequest
// from its beginning (resumeRequest).

// resumePoint is the step at which the goroutine of a client continues after an event loop has
// handed the client off.
type resumePoint uint8

const (
	resumeNext     resumePoint = iota // wait for the next request
	resumeRequest                     // a request header has been read
	resumeResponse                    // the request was sent; wait for the response
	resumeDecision                    // an attempt has ended with loopAttempt.decision
	resumeUnsent                      // send the rest of the response
	resumeFinish                      // the response has been sent; finish the request
)

// loopState is the state of a client within its event loop.
type loopState struct {
	id          uint64
	mayHaveData bool                  // the socket may have data to read
	clientEnded bool                  // the client has closed its sending side; stored because the kernel reports that only once
	upstream    *upstreamRegistration // registration of the connection that carries the request; nil means none
}

// loopAttempt is an attempt that an event loop has started.
type loopAttempt struct {
	attempt
	startedAt           time.Duration
	clientBytesBefore   int64    // bytes sent to the client before the attempt
	upstreamBytesBefore int64    // bytes sent to the app on the connection before the attempt
	decision            decision // result of the attempt, for resumeDecision
}

// handleReadable reads the next request and sends it to the app. It never blocks: if the request
// cannot be read or sent completely now, a goroutine continues.
func (c *client) handleReadable() {
	loop, before := c.loop.Load(), c.conn.Received()
	switch found := c.conn.TryReadRequest(&c.req); found {
	case h1.ParseNoData:
		c.loopState.mayHaveData = false
		c.conn.ReleaseEmptyBuffers()
		return
	case h1.ParseComplete:
		if c.conn.Received() != before { // if no bytes were read from the socket, its data is still unread, and mayHaveData stays set
			c.loopState.mayHaveData = c.loopState.clientEnded || c.conn.MayHaveMore()
		}
	case h1.ParseIncomplete, h1.ParseMustBlock:
		if len(c.conn.Buffered()) > 0 {
			c.eligibility.recordMiss()
		}
		loop.handOff(c, resumeNext)
		return
	}
	c.idleStart.Store(0)
	c.useSettings(c.server.settings.Load())
	if !c.startAttempt(loop) {
		loop.handOff(c, resumeRequest)
		return
	}
	attempt := &c.loopAttempt.attempt
	if result := c.runner.sendRequest(attempt); result.action != 0 {
		c.runner.recordRun(attempt, result, c.loopAttempt.startedAt, c.loopAttempt.clientBytesBefore)
		c.loopAttempt.decision = result
		loop.handOff(c, resumeDecision)
		return
	}
	c.resumeAt = resumeResponse
	if attempt.conn.Writer().Pending() > 0 {
		loop.handOff(c, resumeResponse)
	}
}

// startAttempt starts the attempt of an ordinary request to the app of this node. If it reports
// false, no attempt has started, and the request must run in a goroutine.
func (c *client) startAttempt(loop *eventLoop) bool {
	if !c.isLoopable() {
		c.eligibility.recordMiss()
		return false
	}
	c.beginExchange()
	table := c.server.options.Cluster.Table()
	keys := c.keysBy(table)
	c.keys.Keys = keys
	found, invalid := c.keys.Find(false)
	if invalid != nil || found.Keyless || table.Shards() == 0 {
		c.eligibility.recordMiss()
		return false
	}
	c.exchange.Found, c.exchange.keys = found, keys
	c.exchange.resolveShard(table)
	dest := table.Route(c.exchange.shard)
	if dest.Kind != route.Local || c.router.quarantined() {
		if dest.Kind == route.Remote {
			c.eligibility.recordMiss()
		}
		return false
	}
	if !c.sendsChecked() { // without SendChecked, sending the request may block
		c.eligibility.recordMiss()
		return false
	}
	conn := c.wait.takeIdleConn(c.server.upstream, loop)
	if conn == nil {
		return false
	}
	if !conn.CanBeCheckedOnSend() || !loop.registerUpstream(conn, c) {
		c.server.upstream.Put(conn)
		return false
	}
	attempt := &c.loopAttempt.attempt
	if result := c.router.admitAttempt(attempt, conn, table, dest); result.action != 0 {
		return false
	}
	c.server.budget.Earn()
	c.server.load.Sample(c.exchange.Key)
	c.runner.bindAttempt(attempt)
	c.loopAttempt.startedAt, c.loopAttempt.clientBytesBefore = c.runner.startTimer()
	c.loopAttempt.upstreamBytesBefore = conn.Sent()
	return true
}

// isLoopable reports whether an event loop can serve the request that has been read. Such a request
// has arrived completely and uses no special feature.
func (c *client) isLoopable() bool {
	req := &c.req
	if !req.KeepAlive() || c.isDraining() || req.RequestsUpgrade() || req.ExpectsContinue() || c.writesAccessLog() {
		return false
	}
	if c.settings.ProbePath != "" && string(req.Path()) == c.settings.ProbePath || c.isHookPath() {
		return false
	}
	if req.Body.Done() {
		return true
	}
	c.body.Reset() // the buffer of the previous body may have been discarded because it was too large
	if c.settings.MaxBody > 0 && req.Body.SetMaxBytes(c.settings.MaxBody) != nil {
		return false
	}
	return c.body.ReadAvailable() == nil && req.Body.Done()
}

// handleResponse reads the response of the app and sends it to the client. It returns without
// effect if the response header is incomplete.
func (c *client) handleResponse() {
	loop, attempt := c.loop.Load(), &c.loopAttempt.attempt
	res := &attempt.conn.Response
	switch found := attempt.conn.TryReadResponse(res, c.req.Method()); {
	case found == h1.ParseNoData, found == h1.ParseIncomplete:
		return
	case found == h1.ParseMustBlock, eventrelay.IsEvents(res):
		c.eligibility.recordMiss()
		loop.handOff(c, resumeResponse)
		return
	}
	attempt.conn.ConsumeResponse(res)
	attempt.conn.Pool.MarkProven(attempt.conn)
	if attempt.route.Kind == route.Local {
		c.server.appSilence.RecordResponse(c.server.clock.Now())
	}
	c.reply.logRepairs(res)
	loop.unregisterUpstream(c)
	attempt.conn.SetWakeup(nil)
	result := c.runner.processResponse(attempt)
	c.runner.recordRun(attempt, result, c.loopAttempt.startedAt, c.loopAttempt.clientBytesBefore)
	switch {
	case result.action != actionDone:
		c.loopAttempt.decision = result
		loop.handOff(c, resumeDecision)
	case c.exchange.endUnsent:
		loop.handOff(c, resumeUnsent)
	default:
		c.server.metrics.EventLoopRequests.Add(1)
		c.finishExchange()
		c.finishInLoop(loop)
	}
}

// finishInLoop finishes a request whose response has been sent, and prepares the connection for the
// next request.
func (c *client) finishInLoop(loop *eventLoop) {
	c.body.ReleaseBuffer()
	if !c.exchange.keepAlive || c.exchange.connAborted || !c.req.Body.Done() {
		loop.handOff(c, resumeFinish)
		return
	}
	c.eligibility.recordHit()
	c.resumeAt = resumeNext
	c.conn.ReleaseEmptyBuffers()
	c.idleStart.Store(int64(c.server.clock.Now()))
	if c.loopState.mayHaveData || len(c.conn.Buffered()) > 0 {
		loop.ready = append(loop.ready, c)
	}
}

// resumeExchange completes a request that an event loop has started. at is the step at which the
// event loop handed it off.
func (c *client) resumeExchange(resumeAt resumePoint) {
	defer c.finishExchange()
	started := &c.loopAttempt
	if resumeAt == resumeUnsent {
		c.exchange.connAborted = c.conn.Flush() != nil
		return
	}
	result := started.decision
	if resumeAt == resumeResponse {
		c.disconnect.arm()
		result = c.awaitResumed(started)
		c.runner.recordRun(&started.attempt, result, started.startedAt, started.clientBytesBefore)
	}
	c.router.routeUntilAnswered(started.table, result)
	c.exchange.leaveQueue()
	c.runNextRelays()
}

// awaitResumed sends the part of the request that the event loop could not send without blocking.
// Then it waits for the response, like awaitResponse.
func (c *client) awaitResumed(started *loopAttempt) decision {
	switch err := started.conn.FlushPending(); {
	case err == nil:
		return c.runner.awaitResponse(&started.attempt)
	case started.conn.Sent() == started.upstreamBytesBefore:
		return c.retrier.handleUnsent(&started.attempt, err)
	default:
		return c.retrier.handleBroken(&started.attempt, err)
	}
}

// loopEligibility decides whether the next request of a connection is served by an event loop.
// After a request that the event loop could not serve (a miss), the connection's goroutine serves
// the next skip requests. Each further miss doubles that number.
type loopEligibility struct {
	skip     int // requests that the goroutine serves before the event loop gets another one
	nextSkip int // value of skip after the last miss
	streak   int // requests that the event loop has served since the last miss
}

const (
	minSkip = 16
	maxSkip = 1024
	// resetAfter is the number of requests that the event loop must serve for earlier misses to be
	// forgotten.
	resetAfter = 32
)

func (eligibility *loopEligibility) recordMiss() {
	eligibility.nextSkip = min(max(2*eligibility.nextSkip, minSkip), maxSkip)
	eligibility.skip, eligibility.streak = eligibility.nextSkip, 0
}

func (eligibility *loopEligibility) recordHit() {
	if eligibility.streak++; eligibility.streak == resetAfter {
		eligibility.nextSkip = 0
	}
}

// joinLoop reports whether an event loop takes over the connection, to wait for the next request
// and serve it. If it returns true, the caller must not use the connection any more.
func (c *client) joinLoop() bool {
	switch {
	case c.eventLoops == nil || len(c.conn.Buffered()) > 0 || c.writesAccessLog() || c.isDraining() || c.parkRequested.Load() || c.isEnding():
		return false
	case c.eligibility.skip > 0:
		c.eligibility.skip--
		return false
	}
	return c.handToLoop()
}

// handToLoop marks the connection so that continueServing hands it to an event loop. It always
// returns true.
func (c *client) handToLoop() bool {
	c.handedToLoop = true
	return true
}

// requestPark asks the goroutine or the event loop that owns an idle connection to park it.
func (c *client) requestPark() {
	if c.loop.Load() == nil {
		c.conn.RequestPark()
		return
	}
	c.parkRequested.Store(true)
	c.wakeLoop()
}
