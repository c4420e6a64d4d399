package proxy

import (
	"time"

	"shardway/proxy/h1"
	"shardway/proxy/route"
)

// This file contains the steps of a request that an event loop executes. handleReadable reads the
// request and sends it to the app; it corresponds to readRequest, handleRequest and the first half
// of the attempt. handleResponse executes the remaining steps. The steps and their order are the
// same as in serve.go.
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
	began    time.Duration
	sent     int64    // bytes sent to the client before the attempt
	before   int64    // bytes sent to the app on the connection before the attempt
	decision decision // result of the attempt, for resumeDecision
}

// handleReadable reads the next request and sends it to the app. It never blocks: if the request
// cannot be read or sent completely now, a goroutine continues.
func (c *client) handleReadable() {
	l, before := c.loop.Load(), c.conn.Received()
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
		l.handOff(c, resumeNext)
		return
	}
	c.idle.Store(0)
	c.use(c.server.settings.Load())
	if !c.startAttempt(l) {
		l.handOff(c, resumeRequest)
		return
	}
	p := &c.loopAttempt.attempt
	if v := c.sendRequest(p); v.action != 0 {
		c.recordRun(p, v, c.loopAttempt.began, c.loopAttempt.sent)
		c.loopAttempt.decision = v
		l.handOff(c, resumeDecision)
		return
	}
	c.resumeAt = resumeResponse
	if p.conn.Writer().Pending() > 0 {
		l.handOff(c, resumeResponse)
	}
}

// startAttempt starts the attempt of an ordinary request to the app of this node. If it reports
// false, no attempt has started, and the request must run in a goroutine.
func (c *client) startAttempt(l *eventLoop) bool {
	if !c.isLoopable() {
		c.eligibility.recordMiss()
		return false
	}
	c.beginExchange()
	t := c.server.options.Cluster.Table()
	by := c.keysBy(t)
	c.keys.Keys = by
	found, bad := c.keys.Find(false)
	if bad != nil || found.Keyless || t.Shards() == 0 {
		c.eligibility.recordMiss()
		return false
	}
	c.exchange.Found, c.exchange.keys = found, by
	c.exchange.resolveShard(t)
	r := t.Route(c.exchange.shard)
	if r.Kind != route.Local || c.quarantined() {
		if r.Kind == route.Remote {
			c.eligibility.recordMiss()
		}
		return false
	}
	if !c.sendsChecked() { // without SendChecked, sending the request may block
		c.eligibility.recordMiss()
		return false
	}
	k := c.wait.takeIdleConn(c.server.upstream, l)
	if k == nil {
		return false
	}
	if !k.canSendChecked() || !l.registerUpstream(k, c) {
		c.server.upstream.put(k)
		return false
	}
	p := &c.loopAttempt.attempt
	if v := c.admitAttempt(p, k, t, r); v.action != 0 {
		return false
	}
	c.server.budget.Earn()
	c.server.load.Sample(c.exchange.Key)
	c.bindAttempt(p)
	c.loopAttempt.began, c.loopAttempt.sent = c.startTimer()
	c.loopAttempt.before = k.Sent()
	return true
}

// isLoopable reports whether an event loop can serve the request that has been read. Such a request
// has arrived completely and uses no special feature.
func (c *client) isLoopable() bool {
	r := &c.req
	if !r.KeepAlive() || c.draining() || r.RequestsUpgrade() || r.ExpectsContinue() || c.logs() {
		return false
	}
	if c.settings.ProbePath != "" && string(r.Path()) == c.settings.ProbePath || c.isHookPath() {
		return false
	}
	if r.Body.Done() {
		return true
	}
	c.body.reset() // the buffer of the previous body may have been discarded because it was too large
	if c.settings.MaxBody > 0 && r.Body.SetMaxBytes(c.settings.MaxBody) != nil {
		return false
	}
	return c.body.readAvailable() == nil && r.Body.Done()
}

// handleResponse reads the response of the app and sends it to the client. It returns without
// effect if the response header is incomplete.
func (c *client) handleResponse() {
	l, p := c.loop.Load(), &c.loopAttempt.attempt
	res := &p.conn.res
	switch found := p.conn.TryReadResponse(res, c.req.Method()); {
	case found == h1.ParseNoData, found == h1.ParseIncomplete:
		return
	case found == h1.ParseMustBlock, isEvents(res):
		c.eligibility.recordMiss()
		l.handOff(c, resumeResponse)
		return
	}
	p.conn.ConsumeResponse(res)
	p.conn.pool.markProven(p.conn)
	if p.route.Kind == route.Local {
		c.server.appSilence.RecordResponse(c.server.clock.Now())
	}
	c.reply.repaired(res)
	l.unregisterUpstream(c)
	p.conn.SetWakeup(nil)
	v := c.processResponse(p)
	c.recordRun(p, v, c.loopAttempt.began, c.loopAttempt.sent)
	switch {
	case v.action != actionDone:
		c.loopAttempt.decision = v
		l.handOff(c, resumeDecision)
	case c.exchange.unsent:
		l.handOff(c, resumeUnsent)
	default:
		c.server.metrics.loopRequests.Add(1)
		c.finishExchange()
		c.finishInLoop(l)
	}
}

// finishInLoop finishes a request whose response has been sent, and prepares the connection for the
// next request.
func (c *client) finishInLoop(l *eventLoop) {
	c.body.free()
	if !c.exchange.keep || c.exchange.aborted || !c.req.Body.Done() {
		l.handOff(c, resumeFinish)
		return
	}
	c.eligibility.recordHit()
	c.resumeAt = resumeNext
	c.conn.ReleaseEmptyBuffers()
	c.idle.Store(int64(c.server.clock.Now()))
	if c.loopState.mayHaveData || len(c.conn.Buffered()) > 0 {
		l.ready = append(l.ready, c)
	}
}

// resumeExchange completes a request that an event loop has started. at is the step at which the
// event loop handed it off.
func (c *client) resumeExchange(at resumePoint) {
	defer c.finishExchange()
	f := &c.loopAttempt
	if at == resumeUnsent {
		c.exchange.aborted = c.conn.Flush() != nil
		return
	}
	v := f.decision
	if at == resumeResponse {
		c.disconnect.arm()
		v = c.awaitResumed(f)
		c.recordRun(&f.attempt, v, f.began, f.sent)
	}
	c.routeUntilAnswered(f.table, v)
	c.exchange.leaveQueue()
	c.resume()
}

// awaitResumed sends the part of the request that the event loop could not send without blocking.
// Then it waits for the response, like awaitResponse.
func (c *client) awaitResumed(f *loopAttempt) decision {
	switch err := f.conn.FlushPending(); {
	case err == nil:
		return c.awaitResponse(&f.attempt)
	case f.conn.Sent() == f.before:
		return c.handleUnsent(&f.attempt, err)
	default:
		return c.handleBroken(&f.attempt, err)
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

func (h *loopEligibility) recordMiss() {
	h.nextSkip = min(max(2*h.nextSkip, minSkip), maxSkip)
	h.skip, h.streak = h.nextSkip, 0
}

func (h *loopEligibility) recordHit() {
	if h.streak++; h.streak == resetAfter {
		h.nextSkip = 0
	}
}

// joinsLoop reports whether an event loop takes over the connection, to wait for the next request
// and serve it. If it returns true, the caller must not use the connection any more.
func (c *client) joinsLoop() bool {
	switch {
	case c.eventLoops == nil || len(c.conn.Buffered()) > 0 || c.logs() || c.draining() || c.parkRequested.Load() || c.isEnding():
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
