package proxy

import (
	"errors"
	"os"
	"time"

	"shardway/internal/problem"
	"shardway/proxy/connpool"
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
		resumeAt := c.resumeAt
		c.resumeAt = resumeNext
		switch resumeAt {
		case resumeNext, resumeRequest:
			c.handleRequest()
		case resumeResponse, resumeDecision, resumeUnsent:
			c.resumeExchange(resumeAt)
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

// routeUntilAnswered makes attempts until the client has a response. result is the decision after
// the first attempt, which used table.
func (c *client) routeUntilAnswered(table *route.Table, result decision) {
	for ; ; table, result = c.attemptNow() {
		switch result.action {
		case actionDone, actionRelay:
			return
		case actionRetry:
			continue
		case actionWait:
			result.generation = table.Generation()
			if result = c.waitFor(result); result.action == actionRetry {
				continue
			}
		case actionNextStream:
			c.nextStream()
			continue
		case actionFail:
		}
		switch {
		case result.action != actionFail || c.closing.Load():
		case c.exchange.resumed != nil:
			c.reply.giveUp(resumeLate, result.detail)
		default:
			c.reply.failure(result)
		}
		return
	}
}

// attemptNow makes one attempt by the present routing table.
func (c *client) attemptNow() (*route.Table, decision) {
	table := c.server.options.Cluster.Table()
	return table, c.attemptByTable(table)
}

// waitFor waits until result permits another attempt, and adds the waiting time to the access log.
func (c *client) waitFor(result decision) decision {
	account := &c.exchange.account
	began := account.now()
	result = c.wait.waitFor(result)
	account.queueWait += account.since(began)
	return result
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
	table := c.server.options.Cluster.Table()
	if committed > table.Committed() || proposed > table.Proposed() {
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
		table = c.server.options.Cluster.Table()
	}
	if int(c.exchange.shard) >= table.Shards() {
		c.reply.refuse(route.RefusedHeld)
		return
	}
	c.serveAsOwner(table)
	c.exchange.leaveQueue()
}

// attemptAsOwner runs the forwarded request if this node owns its shard.
func (c *client) attemptAsOwner(table *route.Table) decision {
	if c.exchange.Keyless {
		return c.attemptLocal(table, &c.server.keyless)
	}
	if c.exchange.senderEpoch < table.KeysSince() {
		return decision{action: actionWait, reason: route.ReasonMoving, refusal: route.RefusedHeld} // the ingress has used an older key configuration
	}
	c.exchange.keys = c.keysBy(table)
	dest := table.Route(c.exchange.shard)
	if dest.Kind != route.Local {
		return waitForRoute(dest)
	}
	if err := c.body.gather(c.exchange.onDemand, c.settings.MaxBodyTotal); err != nil {
		return c.reply.badBody(err)
	}
	return c.attemptLocal(table, dest)
}

// attemptByTable makes one attempt at the destination to which the table routes the request.
func (c *client) attemptByTable(table *route.Table) decision {
	if table.Shards() == 0 {
		return decision{action: actionWait, reason: route.ReasonNoMap, refusal: route.RefusedHeld}
	}
	if keys := c.keysBy(table); keys != c.exchange.keys {
		if result := c.rekey(keys); result.action != 0 {
			return result
		}
	}
	c.exchange.resolveShard(table)
	if c.quarantined() {
		if c.exchange.isResumption() { // the client of a WebSocket has its response already
			c.exchange.session.refused, c.exchange.session.closeReason = wsession.CloseTryLater, wsession.ReasonQuarantined
			return done
		}
		return fail(problem.Quarantined, c.exchange.notedRun("requests of this key go nowhere until an operator lifts that (shardway quarantine)"))
	}
	switch {
	case c.exchange.Keyless && c.server.upstream == nil:
		var dest *route.Route
		if c.exchange.shard, dest = table.RandomRemoteShard(); dest.Kind == route.Remote {
			return c.attemptRemote(table, &route.Route{Kind: route.Remote, Node: dest.Node})
		}
		return waitForRoute(dest)
	case c.exchange.Keyless:
		return c.attemptLocal(table, &c.server.keyless)
	}
	dest := table.Route(c.exchange.shard)
	switch dest.Kind {
	case route.Local:
		return c.attemptLocal(table, dest)
	case route.Remote:
		return c.attemptRemote(table, dest)
	case route.Held:
	}
	return waitForRoute(dest)
}

// attemptLocal makes one attempt on the app of this node.
func (c *client) attemptLocal(table *route.Table, dest *route.Route) decision {
	if c.server.upstream == nil {
		return fail(problem.Misrouted, "this node is a gateway: it has no app")
	}
	if c.req.RequestsUpgrade() && c.server.streams.IsFull() {
		return fail(problem.UpstreamBusy, "the maximum number of streams and upgraded connections is open (--max-streams)")
	}
	conn, result := c.wait.acquireConn(c.server.upstream)
	if conn == nil {
		return result
	}
	prepared := &attempt{}
	if result := c.admitAttempt(prepared, conn, table, dest); result.action != 0 {
		return result
	}
	return c.runTimed(prepared)
}

// admitAttempt begins a run of the request on conn, and requests admission from the node. If the
// node refuses, admitAttempt returns conn to the pool. The zero decision means that prepared is
// ready to be run.
func (c *client) admitAttempt(prepared *attempt, conn *connpool.Conn, table *route.Table, dest *route.Route) decision {
	// Begin the run before requesting admission. CancelShards or CancelUpstream, which follow the
	// end of admissions, must find the run.
	if !c.begin(route.Local, conn, nil) {
		c.slot.giveBack(conn)
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
		c.slot.giveBack(conn)
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
		c.slot.giveBack(conn)
		return fail(problem.UpstreamBroken, detailMayHaveRun)
	}
	c.exchange.dequeue()
	c.admitted = release
	*prepared = attempt{conn: conn, table: table, route: dest, attemptEpoch: attemptEpoch{epoch: epoch}, release: c.releaseAdmitted}
	if c.server.options.NotAcquired != nil {
		prepared.generation = c.server.options.Cluster.Table().Generation()
	}
	return decision{}
}

// attemptRemote makes one attempt at the node that owns the shard.
func (c *client) attemptRemote(table *route.Table, dest *route.Route) decision {
	if c.exchange.ran && (c.exchange.ranEpoch == 0 || c.exchange.ranEpoch != dest.Epoch) {
		return fail(problem.PeerUnreachable, detailMayHaveRun)
	}
	pool, useStream := c.server.peers.Pool(dest.Node), false
	if c.fitsStream() {
		useStream = pool.SmallRequests.Add(1) > c.server.streamThreshold
		defer pool.SmallRequests.Add(-1)
	}
	if crowd := c.exchange.upgradeQueue(pool); crowd != nil {
		return c.exchange.waitBehind(crowd)
	}
	conn, result := c.acquirePeerConn(pool, useStream)
	if conn == nil {
		return result
	}
	// Begin the run before checking the table. CancelForwarded, which follows a change of the
	// table, must find the run.
	if !c.begin(route.Remote, conn, &dest.Node) || c.server.options.Cluster.Table() != table {
		c.slot.giveBack(conn)
		if c.closing.Load() {
			return done
		}
		return decision{action: actionRetry}
	}
	c.exchange.dequeue()
	return c.runTimed(&attempt{conn: conn, table: table, route: dest, attemptEpoch: attemptEpoch{epoch: dest.Epoch}, release: nothing})
}

// runAttempt sends the request once, and sends the response to the client.
func (c *client) runAttempt(attempt *attempt) decision {
	if err := c.body.readAvailable(); err != nil {
		c.exchange.route = attempt.route.Kind
		attempt.cancelUnsent()
		return c.reply.badBody(err)
	}
	if attempt.conn.InProcess {
		c.exchange.route = attempt.route.Kind
		return c.runInHandler(attempt)
	}
	if result := c.sendRequest(attempt); result.action != 0 {
		return result
	}
	return c.awaitResponse(attempt)
}

// sendRequest sends the request. After an error, the attempt has ended, and sendRequest returns the
// decision.
func (c *client) sendRequest(attempt *attempt) decision {
	c.exchange.route = attempt.route.Kind
	attempt.bodyOnDemand = attempt.route.Kind == route.Remote && !c.body.isFullyBuffered()
	before := attempt.conn.Sent()
	writer := c.requestWriter.writeHeader(attempt)
	if err := c.writeRequest(attempt, writer); err != nil {
		if attempt.conn.Sent() == before || attempt.isUnread() {
			return c.handleUnsent(attempt, err)
		}
		c.exchange.resumed.countRequest() // SendChecked also waits for the response
		return c.handleBroken(attempt, err)
	}
	if !c.body.running { // no buffer is needed while waiting for the response
		c.conn.ReleaseEmptyBuffers()
		writer.ReleaseEmptyBuffer()
	}
	return decision{}
}

// awaitResponse waits for the response and sends it to the client.
func (c *client) awaitResponse(attempt *attempt) decision {
	if err := c.readResponseHeader(attempt, attempt.conn.Writer()); err != nil {
		if attempt.isUnread() {
			return c.handleUnsent(attempt, err)
		}
		c.exchange.resumed.countRequest()
		return c.handleBroken(attempt, err)
	}
	return c.processResponse(attempt)
}

// processResponse handles a response whose header has been read. It sends the response to the
// client, or returns the decision after a refusal or before a retry.
func (c *client) processResponse(attempt *attempt) decision {
	res := &attempt.conn.Response
	if attempt.route.Kind == route.Local && res.Has(h1.FieldShardwayHold) && !c.reportsNotAcquired(res) {
		c.noteHold(res, attempt.epoch)
	}
	switch {
	case attempt.route.Kind == route.Remote && res.Status() == 421 && res.Has(h1.FieldShardwayRefused), c.exchange.shedByOwner(attempt):
		return c.handleRefused(attempt)
	case attempt.route.Kind == route.Remote && res.Status() == 502 && string(res.Known(h1.FieldShardwayRefused)) == refusedAborted:
		c.exchange.resumed.countRequest()
		return c.handlePeerStopped(attempt)
	case attempt.route.Kind == route.Local && res.Status() == 421 && c.reportsNotAcquired(res):
		return c.handleNotAcquired(attempt)
	case c.exchange.resumed != nil && (brokeAtOwner(attempt) || drainedAtOwner(attempt)):
		return c.handleUnansweredResume(attempt)
	case c.exchange.resumed != nil:
		if !c.acceptsResumption(attempt) {
			return done
		}
	case res.IsSwitchingProtocols():
		c.exchange.leaveQueue()
		if !c.relay.relayUpgrade(attempt) {
			return c.handleBroken(attempt, nil)
		}
		if c.hasRelay() {
			return decision{action: actionRelay}
		}
		return done
	}
	if c.exchange.isResumption() {
		return c.handleDeclined(attempt)
	}
	c.exchange.leaveQueue()
	if began, err := c.relay.relayResponse(attempt); !began {
		return c.handleBroken(attempt, err)
	}
	if stream := c.exchange.resumed; stream != nil && stream.ended && !c.closing.Load() {
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
