package proxy

import (
	"errors"
	"os"
	"time"

	"shardway/internal/problem"
	"shardway/proxy/h1"
	"shardway/proxy/route"
	"shardway/proxy/wsession"
)

// This file contains the steps of a request in the order in which they run: readRequest,
// handleRequest, the loop routeUntilAnswered (serveAsOwner for a forwarded request),
// attemptByTable, attemptLocal or attemptRemote, runAttempt and prepareNext.
//
// Each attempt returns a decision, and only the two loops act on it. attempt.go contains the
// decisions about attempts without a response. The helper types keys, wait, requestWriter, reply,
// relay and handlerConn do not call the functions of this file.
//
// Two kinds of requests do not stay within these functions:
//
//   - A resumable WebSocket leaves this call tree while it has an upstream connection (conn_goroutines.go).
//   - The event loop executes the same steps for small requests of many connections
//     (event_loop_request.go). serveRequests continues where the event loop has stopped.

// serve handles the requests of the connection one after the other. It returns when the connection
// has ended, or when a resumable WebSocket has an upstream connection.
func (c *client) serve() {
	c.server.conns.add(c)
	c.runStep(c.start)
}

// start is serveRequests for a new connection. It closes the connection if a shutdown has already
// begun.
func (c *client) start() {
	if c.server.forceCtx.Err() != nil || c.life.within.Err() != nil {
		c.terminate(causeShutdown) // the shutdown has already closed the older connections, and has not seen this one
	}
	c.serveRequests()
}

// serveRequests handles one request after the other. It starts at the step where an event loop has
// handed the client off.
func (c *client) serveRequests() {
	for {
		if c.resumeAt == resumeNext && !c.readRequest() {
			return
		}
		at := c.resumeAt
		c.resumeAt = resumeNext
		switch at {
		case resumeNext, resumeRequest:
			c.handleRequest()
		case resumeResponse, resumeDecision, resumeUnsent:
			c.resumeExchange(at)
		case resumeFinish:
		}
		if c.hasRelay() {
			c.relay.webSocket.start(c)
			return
		}
		if c.reportStopped() || !c.prepareNext() {
			return
		}
	}
}

// readRequest reads the next request header. It returns false if this goroutine has no further
// request to serve: the connection ends, is parked, or is handed to an event loop.
func (c *client) readRequest() bool {
	c.conn.ReleaseEmptyBuffers()
	if c.idle.Load() == 0 { // otherwise it has been idle in an event loop
		c.idle.Store(int64(c.server.clock.Now()))
	}
	if c.joinsLoop() || c.parkRequested.Swap(false) && c.parkConn() {
		return false
	}
	err := c.conn.ReadRequestAfter(c.idleSince(), &c.req)
	for err == h1.ErrParkRequested { //nolint:errorlint // never wrapped
		if c.parkConn() {
			return false
		}
		err = c.conn.ReadRequest(&c.req)
	}
	c.idle.Store(0)
	c.use(c.server.settings.Load())
	if err == nil {
		return true
	}
	c.exchange = exchange{}
	var bad *h1.Error
	switch {
	case errors.As(err, &bad):
		c.reply.badRequest(bad)
		accessLine{&c.requestState, &c.keys}.writeBad()
		c.conn.CloseLinger(h1.PartOfRequest)
	case errors.Is(err, os.ErrDeadlineExceeded) && len(c.conn.Buffered()) > 0:
		c.reply.headerTimeout()
		accessLine{&c.requestState, &c.keys}.writeBad()
		c.conn.CloseLinger(h1.PartOfRequest)
	case errors.Is(err, h1.ErrStopped) && c.ingress != "":
		c.reply.reportStopped(false) // the other node may already have sent a request
	}
	return false
}

// idleSince returns when the last request ended, if the connection has been idle since then. The
// zero time means that the caller must read the clock.
func (c *client) idleSince() time.Time {
	if c.exchange.ended == 0 {
		return time.Time{}
	}
	return c.server.clock.SystemTime(c.exchange.ended)
}

// beginExchange initializes the state of the request that has been read.
func (c *client) beginExchange() {
	safety := safetyOf(c.req.Method())
	if c.exchange.began != 0 && !c.reused.Load() {
		c.reused.Store(true)
	}
	c.exchange = exchange{
		safety: safety,
		safe:   safety == safeMethod,
		keep:   c.req.KeepAlive() && !c.draining(),
		began:  c.server.clock.Exact(),
	}
	if c.pollSince.Load() != 0 {
		c.pollSince.Store(0)
	}
	if c.logs() {
		c.exchange.account.open(c.conn)
	}
	c.body.reset()
}

// handleRequest runs the request that has been read and sends the response.
func (c *client) handleRequest() {
	c.beginExchange()
	defer c.finishExchange()
	c.server.budget.Earn()
	if c.settings.MaxBody > 0 {
		if err := c.req.Body.SetMaxBytes(c.settings.MaxBody); err != nil {
			c.reply.problem(&problem.Problem{Code: problem.TooLarge, Detail: "the request body exceeds the limit (--max-body)"})
			return
		}
	}
	if c.ingress != "" {
		c.handleForwarded()
		return
	}
	if c.reply.probe() || c.refuseHookPath() {
		return
	}
	var bad *problem.Problem
	c.exchange.keys = c.keysBy(c.server.options.Cluster.Table())
	c.keys.Keys = c.exchange.keys
	if c.exchange.Found, bad = c.keys.Find(c.server.upstream == nil); bad != nil {
		c.reply.problem(bad)
		return
	}
	if err := c.body.gather(c.exchange.onDemand, c.settings.MaxBodyTotal); err != nil {
		c.reply.badBody(err)
		return
	}
	if !c.exchange.Keyless {
		c.server.load.Sample(c.exchange.Key)
		c.createSession()
	}
	c.routeUntilAnswered(c.attemptNow())
	c.exchange.leaveQueue()
	c.resume()
}

// finishExchange records metrics and writes the access log of a request that has ended.
func (c *client) finishExchange() {
	if c.hasRelay() {
		return // the request continues as a WebSocket
	}
	c.trailersDropped(&c.req.Body, "request")
	if c.exchange.session != nil {
		c.session.Store(nil)
	}
	if c.logs() {
		accessLine{&c.requestState, &c.keys}.write()
	}
	c.server.metrics.observeEnd(&c.exchange, c.exchange.elapsed(&c.server.clock))
}

// routeUntilAnswered makes attempts until the client has a response. v is the decision after the
// first attempt, which used the table t.
func (c *client) routeUntilAnswered(t *route.Table, v decision) {
	for ; ; t, v = c.attemptNow() {
		switch v.action {
		case actionDone, actionRelay:
			return
		case actionRetry:
			continue
		case actionWait:
			v.generation = t.Generation()
			if v = c.waitFor(v); v.action == actionRetry {
				continue
			}
		case actionNextStream:
			c.nextStream()
			continue
		case actionFail:
		}
		switch {
		case v.action != actionFail || c.closing.Load():
		case c.exchange.resumed != nil:
			c.reply.giveUp(resumeLate, v.detail)
		default:
			c.reply.failure(v)
		}
		return
	}
}

// attemptNow makes one attempt by the present routing table.
func (c *client) attemptNow() (*route.Table, decision) {
	t := c.server.options.Cluster.Table()
	return t, c.attemptByTable(t)
}

// waitFor waits until the decision v permits another attempt, and adds the waiting time to the
// access log.
func (c *client) waitFor(v decision) decision {
	a := &c.exchange.account
	began := a.now()
	v = c.wait.waitFor(v)
	a.queueWait += a.since(began)
	return v
}

// handleForwarded serves a request that another node has forwarded, or refuses it. It never
// forwards the request again (guarantee G8). A request waits here for up to ownerWait only, because
// requests wait in the queue of their ingress.
//
// There is one exception: a request whose shard the app is acquiring waits here, so that it can run
// as soon as the shard is acquired. It also stops waiting when the next map is proposed or the
// lease ends.
func (c *client) handleForwarded() {
	committed, proposed, ok := c.readForwarded()
	c.exchange.senderEpoch = committed
	if !ok {
		c.reply.problem(&problem.Problem{Code: problem.Misrouted, Detail: "not a forwarded request"})
		c.exchange.keep = false
		return
	}
	if c.refuseHookPath() {
		return
	}
	t := c.server.options.Cluster.Table()
	if committed > t.Committed() || proposed > t.Proposed() {
		// Without a lease, waiting is useless. If the disk of a node hangs, its log may be behind
		// for seconds. If another node took the shard over in the meantime, the ingress would regard a
		// waiting request as sent to the app.
		if c.server.options.Cluster.LeaseLeft() <= 0 {
			c.reply.refuse(route.RefusedNoLease)
			return
		}
		if !c.wait.catchUp(committed, proposed) {
			c.reply.refuse(route.RefusedHeld)
			return
		}
		t = c.server.options.Cluster.Table()
	}
	if int(c.exchange.shard) >= t.Shards() {
		c.reply.refuse(route.RefusedHeld)
		return
	}
	c.serveAsOwner(t)
	c.exchange.leaveQueue()
}

// attemptAsOwner runs the forwarded request if this node owns its shard.
func (c *client) attemptAsOwner(t *route.Table) decision {
	if c.exchange.Keyless {
		return c.attemptLocal(t, &c.server.keyless)
	}
	if c.exchange.senderEpoch < t.KeysSince() {
		return decision{action: actionWait, reason: route.ReasonMoving, refusal: route.RefusedHeld} // the ingress has used an older key configuration
	}
	c.exchange.keys = c.keysBy(t)
	r := t.Route(c.exchange.shard)
	if r.Kind != route.Local {
		return waitForRoute(r)
	}
	if err := c.body.gather(c.exchange.onDemand, c.settings.MaxBodyTotal); err != nil {
		return c.reply.badBody(err)
	}
	return c.attemptLocal(t, r)
}

// attemptByTable makes one attempt at the destination to which the table routes the request.
func (c *client) attemptByTable(t *route.Table) decision {
	if t.Shards() == 0 {
		return decision{action: actionWait, reason: route.ReasonNoMap, refusal: route.RefusedHeld}
	}
	if by := c.keysBy(t); by != c.exchange.keys {
		if v := c.rekey(by); v.action != 0 {
			return v
		}
	}
	c.exchange.resolveShard(t)
	if c.quarantined() {
		if c.exchange.isResumption() { // the client of a WebSocket has its response already
			c.exchange.session.refused, c.exchange.session.closeReason = wsession.CloseTryLater, wsession.ReasonQuarantined
			return done
		}
		return fail(problem.Quarantined, c.exchange.notedRun("requests of this key go nowhere until an operator lifts that (shardway quarantine)"))
	}
	switch {
	case c.exchange.Keyless && c.server.upstream == nil:
		var r *route.Route
		if c.exchange.shard, r = t.RandomRemoteShard(); r.Kind == route.Remote {
			return c.attemptRemote(t, &route.Route{Kind: route.Remote, Node: r.Node})
		}
		return waitForRoute(r)
	case c.exchange.Keyless:
		return c.attemptLocal(t, &c.server.keyless)
	}
	r := t.Route(c.exchange.shard)
	switch r.Kind {
	case route.Local:
		return c.attemptLocal(t, r)
	case route.Remote:
		return c.attemptRemote(t, r)
	case route.Held:
	}
	return waitForRoute(r)
}

// attemptLocal makes one attempt on the app of this node.
func (c *client) attemptLocal(t *route.Table, r *route.Route) decision {
	if c.server.upstream == nil {
		return fail(problem.Misrouted, "this node is a gateway: it has no app")
	}
	if c.req.RequestsUpgrade() && c.server.streams.isFull() {
		return fail(problem.UpstreamBusy, "the maximum number of streams and upgraded connections is open (--max-streams)")
	}
	l, v := c.wait.acquireConn(c.server.upstream)
	if l == nil {
		return v
	}
	p := &attempt{}
	if v := c.admitAttempt(p, l, t, r); v.action != 0 {
		return v
	}
	return c.runTimed(p)
}

// admitAttempt begins a run of the request on l, and requests admission from the node. If the node
// refuses, admitAttempt returns l to the pool. The zero decision means that p is ready to be run.
func (c *client) admitAttempt(p *attempt, l *upstreamConn, t *route.Table, r *route.Route) decision {
	// Begin the run before requesting admission. CancelShards or CancelUpstream, which follow the
	// end of admissions, must find the run.
	if !c.begin(route.Local, l, nil) {
		c.slot.giveBack(l)
		return done
	}
	epoch, release, err := c.admit()
	if err == nil && (c.exchange.wantEpoch != 0 && c.exchange.wantEpoch != epoch) {
		release()
		err = route.RefusedNotOwner
	}
	if err == nil && !c.exchange.Keyless && c.keysBy(c.server.options.Cluster.Table()) != c.exchange.keys {
		release()
		err = route.RefusedHeld // the key configuration has changed since the key was extracted
	}
	if err != nil {
		c.slot.giveBack(l)
		refusal, ok := err.(route.Refusal) //nolint:errorlint // Admit returns it bare, and this allocates nothing
		if !ok {
			refusal = route.RefusedHeld
		}
		reason := route.ReasonMoving
		if refusal == route.RefusedNoLease {
			reason = route.ReasonNoLease
		}
		// The wait ends with a newer table. The node also publishes one when its lease is valid
		// again.
		return decision{action: actionWait, reason: reason, refusal: refusal}
	}
	if c.exchange.ran && c.exchange.ranEpoch != epoch {
		release()
		c.slot.giveBack(l)
		return fail(problem.UpstreamBroken, detailMayHaveRun)
	}
	c.exchange.dequeue()
	c.admitted = release
	*p = attempt{conn: l, table: t, route: r, attemptEpoch: attemptEpoch{epoch: epoch}, release: c.releaseAdmitted}
	if c.server.options.NotAcquired != nil {
		p.generation = c.server.options.Cluster.Table().Generation()
	}
	return decision{}
}

// attemptRemote makes one attempt at the node that owns the shard.
func (c *client) attemptRemote(t *route.Table, r *route.Route) decision {
	if c.exchange.ran && (c.exchange.ranEpoch == 0 || c.exchange.ranEpoch != r.Epoch) {
		return fail(problem.PeerUnreachable, detailMayHaveRun)
	}
	p, useStream := c.server.peers.pool(r.Node), false
	if c.fitsStream() {
		useStream = p.smallRequests.Add(1) > c.server.streamThreshold
		defer p.smallRequests.Add(-1)
	}
	if crowd := c.exchange.upgradeQueue(p); crowd != nil {
		return c.exchange.waitBehind(crowd)
	}
	l, v := c.acquirePeerConn(p, useStream)
	if l == nil {
		return v
	}
	// Begin the run before checking the table. CancelForwarded, which follows a change of the
	// table, must find the run.
	if !c.begin(route.Remote, l, &r.Node) || c.server.options.Cluster.Table() != t {
		c.slot.giveBack(l)
		if c.closing.Load() {
			return done
		}
		return decision{action: actionRetry}
	}
	c.exchange.dequeue()
	return c.runTimed(&attempt{conn: l, table: t, route: r, attemptEpoch: attemptEpoch{epoch: r.Epoch}, release: nothing})
}

// runAttempt sends the request once, and sends the response to the client.
func (c *client) runAttempt(p *attempt) decision {
	if err := c.body.readAvailable(); err != nil {
		c.exchange.route = p.route.Kind
		p.cancelUnsent()
		return c.reply.badBody(err)
	}
	if p.conn.inproc != nil {
		c.exchange.route = p.route.Kind
		return c.runInHandler(p)
	}
	if v := c.sendRequest(p); v.action != 0 {
		return v
	}
	return c.awaitResponse(p)
}

// sendRequest sends the request. After an error, the attempt has ended, and sendRequest returns the
// decision.
func (c *client) sendRequest(p *attempt) decision {
	c.exchange.route = p.route.Kind
	p.bodyOnDemand = p.route.Kind == route.Remote && !c.body.isFullyBuffered()
	before := p.conn.Sent()
	w := c.requestWriter.writeHeader(p)
	if err := c.writeRequest(p, w); err != nil {
		if p.conn.Sent() == before || p.isUnread() {
			return c.handleUnsent(p, err)
		}
		c.exchange.resumed.countRequest() // SendChecked also waits for the response
		return c.handleBroken(p, err)
	}
	if !c.body.running { // no buffer is needed while waiting for the response
		c.conn.ReleaseEmptyBuffers()
		w.ReleaseEmptyBuffer()
	}
	return decision{}
}

// awaitResponse waits for the response and sends it to the client.
func (c *client) awaitResponse(p *attempt) decision {
	if err := c.readResponseHeader(p, p.conn.Writer()); err != nil {
		if p.isUnread() {
			return c.handleUnsent(p, err)
		}
		c.exchange.resumed.countRequest()
		return c.handleBroken(p, err)
	}
	return c.processResponse(p)
}

// processResponse handles a response whose header has been read. It sends the response to the
// client, or returns the decision after a refusal or before a retry.
func (c *client) processResponse(p *attempt) decision {
	res := &p.conn.res
	if p.route.Kind == route.Local && res.Has(h1.FieldShardwayHold) && !c.reportsNotAcquired(res) {
		c.noteHold(res, p.epoch)
	}
	switch {
	case p.route.Kind == route.Remote && res.Status() == 421 && res.Has(h1.FieldShardwayRefused), c.exchange.shedByOwner(p):
		return c.handleRefused(p)
	case p.route.Kind == route.Remote && res.Status() == 502 && string(res.Known(h1.FieldShardwayRefused)) == refusedAborted:
		c.exchange.resumed.countRequest()
		return c.handlePeerStopped(p)
	case p.route.Kind == route.Local && res.Status() == 421 && c.reportsNotAcquired(res):
		return c.handleNotAcquired(p)
	case c.exchange.resumed != nil && (brokeAtOwner(p) || drainedAtOwner(p)):
		return c.handleUnansweredResume(p)
	case c.exchange.resumed != nil:
		if !c.acceptsResumption(p) {
			return done
		}
	case res.IsSwitchingProtocols():
		c.exchange.leaveQueue()
		if !c.relay.relayUpgrade(p) {
			return c.handleBroken(p, nil)
		}
		if c.hasRelay() {
			return decision{action: actionRelay}
		}
		return done
	}
	if c.exchange.isResumption() {
		return c.handleDeclined(p)
	}
	c.exchange.leaveQueue()
	if began, err := c.relay.relayResponse(p); !began {
		return c.handleBroken(p, err)
	}
	if k := c.exchange.resumed; k != nil && k.ended && !c.closing.Load() {
		return decision{action: actionNextStream}
	}
	return done
}

// prepareNext reads the rest of the request body, so that the connection can carry another request.
// If that is not possible, it closes the connection and returns false. The client can still read
// its response then.
func (c *client) prepareNext() bool {
	c.body.free()
	if c.exchange.onDemand && !c.exchange.bodyRequested {
		return c.exchange.keep // the ingress will not send the body, because it was not requested
	}
	if c.exchange.aborted {
		return false
	}
	if !c.req.Body.Done() {
		c.exchange.ended = 0 // reading the rest of the body may take time, so this time is outdated
	}
	if c.exchange.keep && c.reply.drained() {
		return true
	}
	switch {
	case c.last():
		c.conn.CloseLast()
	case c.req.Body.Done():
		c.conn.CloseLinger(h1.WholeRequest)
	default:
		c.conn.CloseLinger(h1.PartOfRequest)
	}
	return false
}
