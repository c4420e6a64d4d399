package proxy

import (
	"cmp"
	"context"
	"time"

	"shardway/internal/problem"
	"shardway/proxy/h1"
	"shardway/proxy/wsframe"
)

// startSession passes on the answer 101 that begins a leg, which is to be carried once the flow of
// its request has been left. False means that the run was cut before that.
func (y *responseRelay) startSession(p *attempt) bool {
	k, later := y.x.session, y.x.isResumption()
	l := newWebSocketRelay(y, p)
	y.slot.webSocket.Store(l)
	if !y.slot.mark(slotAnswered | slotTunnel | slotSocket) {
		y.slot.webSocket.Store(nil)
		return false
	}
	y.webSocket = l
	l.addRunning(1)
	if l.app {
		p.conn.pool.detach(p.conn, nil)
	}
	y.x.cut, k.relayStarted = true, true
	k.answered()
	p.conn.pool.breaker.onAccepted()
	if later {
		p.conn.pool.noteResumed()
	}
	y.noteWebSocketPath(p, false)
	if later && !l.app {
		p.conn.pool.upgradeResponded(p.conn)
		p.conn.pool.upgradeBackoff.onAccepted(0)
	}
	y.answered(&p.conn.res)
	if l.client {
		y.recordStart(k)
		k.gap = false
		if k.relays++; k.relays == 1 {
			k.protocol = string(p.conn.res.Value("Sec-WebSocket-Protocol"))
		}
	}
	l.responseSent = later || y.switches(p, !l.client)
	if l.client {
		sessionLog{y.requestState}.begins()
	}
	y.releaseBuffers(p)
	return true
}

// switches passes on an answer 101, without what the app says of the socket; to the
// node that has the client it says instead that it is kept.
func (y *responseRelay) switches(p *attempt, kept bool) bool {
	e := y.head(p.route, &p.conn.res)
	e.Upgrade, e.Close, e.KeepAlive = true, false, false
	if p.conn.res.Value(headerSocket) != nil {
		e.Drop |= h1.Of(h1.FieldShardwayOther)
	}
	if kept {
		y.extra = append(y.extra, headerSocket+": "+socketKept+"\r\n"...)
		e.Extra = y.extra
	}
	return y.conn.WriteResponseHead(&p.conn.res, e).Close(nil) == nil
}

// resume follows a kept socket from leg to leg, after the first, and ends its client's
// connection.
func (c *client) resume() {
	k := c.x.session
	if k == nil || c.hasRelay() {
		return
	}
	for k.resumes && !c.down.Load() {
		k.resumes = false
		if code, why := c.resumeSession(); code != 0 {
			k.closing, k.why = code, why
		}
		if c.hasRelay() {
			return
		}
		c.unfound()
	}
	if c.down.Load() {
		return
	}
	if k.closing != 0 {
		w := c.conn.Writer()
		w.Begin(h1.UntilClose, 0)
		w.SetPrecondition(func() (time.Duration, error) { return closeFrameWrite, nil })
		_, _ = w.Write(wsframe.AppendClose(nil, k.closing, cmp.Or(k.why, reasonOf(k.closing)), false)) // the connection ends in any case
		k.lingers = w.Flush() == nil
	}
	if k.lingers {
		c.conn.CloseLinger(h1.WholeRequest)
	}
}

// resumeSession sends the request of a kept socket again until an app takes it, as long as
// it may wait: then the next leg has begun. Else it returns what to close the client with.
func (c *client) resumeSession() (code int, why string) {
	k := c.x.session
	ctx, cancel := context.WithCancel(c.life.context())
	defer cancel()
	defer c.s.limitResume(c.x.shard, cancel)()
	c.s.sockets.tempo.sessionLost()
	defer c.s.sockets.tempo.sessionResumed()
	k.wait.Store(&cancel)
	defer k.wait.Store(nil)
	// An app that is silent has no longer than that.
	stop := context.AfterFunc(ctx, c.cutUnanswered)
	defer stop()
	c.wait.attemptContext = ctx //nolint:fatcontext // for this leg alone
	defer func() { c.wait.attemptContext = nil }()
	c.x.prepareRetry(maxResumeWaits * c.s.o.SocketWait)
	for {
		k.delivered, k.relayStarted, k.refused = false, false, 0
		c.routeUntilAnswered(c.attemptNow())
		if k.delivered {
			k.resumed++
			k.gap = k.gap || !k.relayStarted
		}
		switch {
		case c.down.Load() || k.relayStarted:
			c.x.leaveQueue()
			return 0, ""
		case k.refused != 0:
			c.x.leaveQueue()
			return k.refused, cmp.Or(k.why, whyRefused)
		}
		c.x.tries, c.x.reusedTries, c.x.responsesBegun, c.x.notAcquired = 0, 0, 0, 0
		// A table that is newer than the attempt is looked at after the pause.
		v := decision{action: actionWait, reason: ReasonUnreachable, backoff: true, generation: c.s.o.Cluster.Table().generation}
		if ctx.Err() != nil || c.waitFor(v).action != actionRetry {
			c.x.leaveQueue()
			if c.s.closing.Load() {
				return int(closeMoved), closeLeaving.reason()
			}
			return int(closeMoved), whyLate
		}
	}
}

// cutUnanswered cuts what the connection runs unless it has been answered.
func (c *client) cutUnanswered() {
	closes, _ := c.slot.cut(causeTimeout, func(r run, _ string) bool { return r.flags&slotAnswered == 0 }, nil)
	closeAll(closes)
}

// prepareRetry makes the exchange that of the socket's next leg. What may have reached an app is
// sent again only with a higher number.
func (x *exchange) prepareRetry(wait time.Duration) {
	x.leaveQueue()
	x.safety, x.deadline, x.pause = unsafeMethod, time.Now().Add(wait), 0
	x.tries, x.reusedTries, x.responsesBegun, x.notAcquired, x.wreck, x.cutRun = 0, 0, 0, 0, nil, false
	x.noStreams = false // another trunk, or the node's next one
}

// declined ends a trip of a later leg that was answered with something else than 101. Only
// what another node says itself is worth another attempt.
func (c *client) declined(p *attempt) decision {
	res := &p.conn.res
	switch word := res.Known(h1.FieldShardwayError); {
	case p.route.Kind != Remote || word == nil:
		c.x.session.refused = closesWith(res)
		p.conn.pool.noteResumed()
	case notAsked(problem.Code(word)):
		c.x.noteNotDelivered()
	}
	p.abort()
	return done
}

// notAsked reports whether an owner that answers with a problem has sent its app nothing.
func notAsked(code problem.Code) bool {
	switch code { //nolint:exhaustive // what is not known to be one may have reached it
	case problem.UpstreamBusy, problem.ShardBusy, problem.UpstreamRefused, problem.UpstreamConnectTimeout,
		problem.QueueFull, problem.QueueTimeout, problem.Misrouted:
		return true
	}
	return false
}
