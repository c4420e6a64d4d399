package proxy

import (
	"time"

	"shardway/proxy/h1"
)

// What a loop does of the life of a request that serve.go has whole: ask is next, exchange
// and attempt as far as the request has gone out, and answer is the rest. Their steps are the
// flow's own, in its order. What would wait there, or has another way to go, leaves for it:
// before anything has begun at resumeRequest, where exchange begins anew.

// resumePoint is where the goroutine of a client goes on that has been in a loop.
type resumePoint uint8

const (
	resumeNext     resumePoint = iota // the next request is to be waited for
	resumeRequest                     // a request has been read
	resumeResponse                    // its answer is to be waited for
	resumeDecision                    // an attempt has come to a verdict
	resumeUnsent                      // the end of its answer is still to be sent
	resumeFinish                      // it is over
)

// loopState is what a client is in its loop.
type loopState struct {
	id          uint64
	mayHaveData bool          // there may be something to read
	clientEnded bool          // the client has ended its side, which nobody will say again
	upstream    *upstreamSlot // of the link by which its request is under way; nil: none is
}

// loopAttempt is a run that has gone out in a loop.
type loopAttempt struct {
	attempt
	began    time.Duration
	sent     int64    // to the client before it
	before   int64    // over its link before it
	decision decision // what came of it, at resumeDecision
}

// handleReadable runs the next request as far as it can be sent at once.
func (c *client) handleReadable() {
	l, before := c.loop.Load(), c.h.Received()
	switch found := c.h.TryReadRequest(&c.req); found {
	case h1.ParseNoData:
		c.loopState.mayHaveData = false
		c.h.Idle()
		return
	case h1.ParseComplete:
		if c.h.Received() != before { // else what has come meanwhile is still there
			c.loopState.mayHaveData = c.loopState.clientEnded || c.h.MayHaveMore()
		}
	case h1.ParseIncomplete, h1.ParseMustBlock:
		if len(c.h.Buffered()) > 0 {
			c.eligibility.recordMiss()
		}
		l.handOff(c, resumeNext)
		return
	}
	c.idle.Store(0)
	c.use(c.s.set.Load())
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

// startAttempt begins the run of a request that is as most are. False: nothing has begun.
func (c *client) startAttempt(l *eventLoop) bool {
	if !c.isLoopable() {
		c.eligibility.recordMiss()
		return false
	}
	c.beginExchange()
	t := c.s.o.Cluster.Table()
	by := c.keysBy(t)
	c.keys.keys = by
	found, bad := c.keys.find(false)
	if bad != nil || found.keyless || t.Shards() == 0 {
		c.eligibility.recordMiss()
		return false
	}
	c.x.found, c.x.by = found, by
	c.x.resolveShard(t)
	r := t.Route(c.x.shard)
	if r.Kind != Local || c.quarantined() {
		if r.Kind == Remote {
			c.eligibility.recordMiss()
		}
		return false
	}
	if !c.sendsChecked() { // it may have to be waited for until the app takes it
		c.eligibility.recordMiss()
		return false
	}
	k := c.wait.takeIdleConn(c.s.upstream, l)
	if k == nil {
		return false
	}
	if !k.canSendChecked() || !l.registerUpstream(k, c) {
		c.s.upstream.put(k)
		return false
	}
	p := &c.loopAttempt.attempt
	if v := c.admitAttempt(p, k, t, r); v.action != 0 {
		return false
	}
	c.s.budget.earn()
	c.s.load.sample(c.x.key)
	c.bindAttempt(p)
	c.loopAttempt.began, c.loopAttempt.sent = c.startTimer()
	c.loopAttempt.before = k.Sent()
	return true
}

// isLoopable reports whether the request that has been read is one of those that a loop carries,
// all of which is here.
func (c *client) isLoopable() bool {
	r := &c.req
	if !r.KeepAlive() || c.draining() || r.Upgrades() || r.Expects() || c.logs() {
		return false
	}
	if c.set.ProbePath != "" && string(r.Path()) == c.set.ProbePath || c.hidden() {
		return false
	}
	if r.Body.Done() {
		return true
	}
	c.up.reset() // the one before may have been too long to be kept
	if c.set.MaxBody > 0 && r.Body.Limit(c.set.MaxBody) != nil {
		return false
	}
	return c.up.take() == nil && r.Body.Done()
}

// handleResponse passes the answer on that has come.
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
	if p.r.Kind == Local {
		c.s.appWatch.record(c.s.clock.now())
	}
	c.reply.repaired(res)
	l.unregisterUpstream(c)
	p.conn.SetWakeup(nil)
	v := c.relayResponse(p)
	c.recordRun(p, v, c.loopAttempt.began, c.loopAttempt.sent)
	switch {
	case v.action != actionDone:
		c.loopAttempt.decision = v
		l.handOff(c, resumeDecision)
	case c.x.unsent:
		l.handOff(c, resumeUnsent)
	default:
		c.s.metrics.looped.Add(1)
		c.finishExchange()
		c.finishInLoop(l)
	}
}

// finishInLoop ends an exchange whose answer has gone out.
func (c *client) finishInLoop(l *eventLoop) {
	c.up.free()
	if !c.x.keep || c.x.cut || !c.req.Body.Done() {
		l.handOff(c, resumeFinish)
		return
	}
	c.eligibility.recordHit()
	c.resumeAt = resumeNext
	c.h.Idle()
	c.idle.Store(int64(c.s.clock.now()))
	if c.loopState.mayHaveData || len(c.h.Buffered()) > 0 {
		l.ready = append(l.ready, c)
	}
}

// resumeExchange is the rest of exchange for a request of which a loop has carried the rest.
func (c *client) resumeExchange(at resumePoint) {
	defer c.finishExchange()
	f := &c.loopAttempt
	if at == resumeUnsent {
		c.x.cut = c.h.Flush() != nil
		return
	}
	v := f.decision
	if at == resumeResponse {
		c.gone.arm()
		v = c.awaitResumed(f)
		c.recordRun(&f.attempt, v, f.began, f.sent)
	}
	c.routeUntilAnswered(f.t, v)
	c.x.leaveQueue()
	c.resume()
}

// awaitResumed is arrive for a run that has gone out in a loop, as far as it has.
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

// loopEligibility is what is known of a connection's requests: one whose requests are none for a loop
// is not carried by one for the next few, and each time it was tried in vain for twice as
// many.
type loopEligibility struct {
	skip     int // requests that its goroutine carries before a loop is tried again
	nextSkip int // how many that are the next time
	streak   int // that a loop has carried since then
}

const (
	minSkip = 16
	maxSkip = 1024
	// resetAfter is how many requests a loop has carried when it is for a loop again.
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

// joinsLoop reports whether a loop is to wait for the next request, and carry it: then the
// caller has nothing to do with the connection any more.
func (c *client) joinsLoop() bool {
	switch {
	case c.eventLoops == nil || len(c.h.Buffered()) > 0 || c.logs() || c.draining() || c.parkRequested.Load() || c.isEnding():
		return false
	case c.eligibility.skip > 0:
		c.eligibility.skip--
		return false
	}
	return c.handToLoop()
}

// handToLoop has a loop carry the connection.
func (c *client) handToLoop() bool {
	c.handedToLoop = true
	return true
}

// requestPark has the connection parked, which has been idle for long enough.
func (c *client) requestPark() {
	if c.loop.Load() == nil {
		c.h.RequestPark()
		return
	}
	c.parkRequested.Store(true)
	c.wakeLoop()
}
