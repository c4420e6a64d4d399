package proxy

import (
	"sync/atomic"

	"shardway/internal/problem"
	"shardway/proxy/connlife"
	"shardway/proxy/connpool"
	"shardway/proxy/inflight"
	"shardway/proxy/keylimit"
	"shardway/proxy/metrics"
	"shardway/proxy/route"
	"shardway/proxy/shardkey"
	"shardway/proxy/wsession"
)

// router finds the owner of a request's shard, and makes attempts there until the client has a
// response.
type router struct {
	*requestState

	// Other steps of the request.

	reply   reply
	keys    *shardkey.Extractor
	wait    *requestWait
	runner  *attemptRunner
	retrier *retrier

	// State of the client's connection.

	slot            *inflight.Slot
	admission       *admission
	closing         *atomic.Bool // client.closing
	life            *connlife.Lifetime
	releaseAdmitted func() // bound method admission.release
	createSession   func() // bound method client.createSession
	// firstByteTimeout is connState.firstByteTimeout.
	firstByteTimeout *atomic.Int64
}

// routeUntilAnswered makes attempts until the client has a response. result is the decision after
// the first attempt, which used table.
func (router *router) routeUntilAnswered(table *route.Table, result decision) {
	for ; ; table, result = router.attemptByCurrentTable() {
		switch result.action {
		case actionDone, actionRelay:
			return
		case actionRetry:
			continue
		case actionWait:
			result.generation = table.Generation()
			if result = router.waitFor(result); result.action == actionRetry {
				continue
			}
		case actionNextStream:
			router.nextStream()
			continue
		case actionReroute:
			router.reroute()
			continue
		case actionFail:
		}
		if result.action == actionFail && !router.closing.Load() {
			router.failRequest(result)
		}
		return
	}
}

// failRequest sends the error response that result describes. If the client is already reading an
// event stream, failRequest ends the stream instead.
func (router *router) failRequest(result decision) {
	if router.exchange.eventStream != nil {
		router.reply.endStream(metrics.ResumeTimedOut, result.detail)
		return
	}
	router.reply.sendFailure(result)
}

// attemptByCurrentTable makes one attempt according to the current routing table, which it returns.
func (router *router) attemptByCurrentTable() (*route.Table, decision) {
	table := router.server.options.Cluster.Table()
	return table, router.attemptByTable(table)
}

// waitFor waits until result permits another attempt, and adds the waiting time to the access log
// entry.
func (router *router) waitFor(result decision) decision {
	account := &router.exchange.account
	startedAt := account.Now()
	result = router.wait.waitFor(result)
	account.QueueWait += account.Since(startedAt)
	return result
}

// attemptAsOwner makes one attempt for a forwarded request, if this node owns its shard.
func (router *router) attemptAsOwner(table *route.Table) decision {
	if refusal := router.exchange.resolveForwarded(table); refusal != 0 {
		return decision{action: actionWait, reason: route.ReasonNoMap, refusal: refusal}
	}
	if router.exchange.Keyless {
		if !router.server.upstreams.RunsService(router.exchange.service) {
			return router.refuseService()
		}
		return router.attemptLocal(table, router.server.keylessRoute(router.exchange.service))
	}
	ingressUsedOldKeys := router.exchange.senderEpoch < table.KeysSince()
	if ingressUsedOldKeys {
		return decision{action: actionWait, reason: route.ReasonMoving, refusal: route.RefusedQueued}
	}
	router.exchange.keys = router.keysBy(table)
	dest := table.Route(router.exchange.shard)
	if dest.Kind != route.Local {
		return waitForRoute(dest)
	}
	if err := router.body.BufferSmallBody(router.exchange.ingressHoldsBody, router.settings.MaxBodyTotal); err != nil {
		return router.reply.rejectBody(err)
	}
	return router.attemptLocal(table, dest)
}

// attemptByTable makes one attempt at the destination given by table.
func (router *router) attemptByTable(table *route.Table) decision {
	if table.Shards() == 0 {
		return decision{action: actionWait, reason: route.ReasonNoMap, refusal: route.RefusedQueued}
	}
	if keys := router.keysBy(table); keys != router.exchange.keys {
		if result := router.rekey(keys); result.action != 0 {
			return result
		}
	}
	if !router.exchange.resolveShard(table) {
		return noServiceYet
	}
	if router.isQuarantined() {
		return router.rejectQuarantined()
	}
	if router.exchange.Keyless {
		return router.attemptKeyless(table)
	}
	dest := table.Route(router.exchange.shard)
	switch dest.Kind {
	case route.Local:
		return router.attemptLocal(table, dest)
	case route.Remote:
		return router.attemptRemote(table, dest)
	case route.Queued:
	}
	return waitForRoute(dest)
}

// attemptKeyless makes one attempt for a request without a key. Any node's app may serve it: a node
// with an app uses its own. A gateway, or a node that does not run the service, uses the owner of a random shard of
// the service.
func (router *router) attemptKeyless(table *route.Table) decision {
	service := router.exchange.service
	if router.server.upstreams.RunsService(service) {
		return router.attemptLocal(table, router.server.keylessRoute(service))
	}
	var dest *route.Route
	router.exchange.shard, dest = table.RandomRemoteShard(service)
	if dest.Kind != route.Remote {
		return waitForRoute(dest)
	}
	return router.attemptRemote(table, &route.Route{Kind: route.Remote, Node: dest.Node})
}

// rejectQuarantined returns the decision for a request whose key is in quarantine. The client of a
// resumed WebSocket already has a response, so it receives a close code instead of an error response.
func (router *router) rejectQuarantined() decision {
	if router.exchange.isResumption() {
		session := router.exchange.session
		session.RefusalCode, session.CloseReason = wsession.CloseTryLater, wsession.ReasonQuarantined
		return done
	}
	return fail(problem.Quarantined, router.exchange.addMayHaveRun("requests of this key go nowhere until an operator lifts that (shardway quarantine)"))
}

// attemptLocal makes one attempt on the app of this node.
func (router *router) attemptLocal(table *route.Table, dest *route.Route) decision {
	if router.server.upstreams.IsGateway() {
		return fail(problem.Misrouted, "this node is a gateway: it has no app")
	}
	if !router.server.upstreams.RunsInstance(router.exchange.service, dest.Instance) {
		return router.refuseInstance()
	}
	if router.req.RequestsUpgrade() && router.server.upstreams.LongLived.IsFull() {
		return fail(problem.UpstreamBusy, "the maximum number of streams and upgraded connections is open (--max-streams)")
	}
	route, unambiguous := router.findRoute(router.serviceSettings())
	if !unambiguous {
		return fail(problem.BadRequest, detailAmbiguousRoute)
	}
	router.exchange.route = route
	if route.firstByteTimeout != 0 {
		router.firstByteTimeout.Store(int64(route.firstByteTimeout))
	}
	if result := router.enterLimits(route); result.action != 0 {
		return result
	}
	pool, process, result := router.localPool(dest)
	if pool == nil {
		router.admission.releasePermits()
		return result
	}
	if process != nil {
		defer process.Release()
	}
	if result = router.enterKey(); result.action == 0 {
		result = router.enterShard()
	}
	if result.action != 0 {
		router.admission.releasePermits()
		return result
	}
	conn, result := router.wait.acquireConn(pool)
	if conn == nil {
		router.admission.releasePermits()
		return result
	}
	router.serviceSettings().setIdleTimeout(conn, route)
	prepared := &attempt{}
	if result = router.admitAttempt(prepared, conn, table, dest); result.action != 0 {
		router.admission.releasePermits()
		return result
	}
	result = router.runner.runTimed(prepared)
	router.chargeBody(0)
	return result
}

// admitAttempt begins a run of the request on conn and requests admission from the node. The zero
// decision means that prepared can be run. Otherwise the node refused, or the client's connection
// is being closed, and conn has been returned to the pool.
func (router *router) admitAttempt(prepared *attempt, conn *connpool.Conn, table *route.Table, dest *route.Route) decision {
	// Begin the run before requesting admission, so that CancelShards and CancelUpstream, which are
	// called once admission has stopped, find the run.
	if !router.begin(route.Local, conn, nil) {
		router.slot.ReturnToPool(conn)
		return done
	}
	if router.lacksPermit() {
		router.slot.ReturnToPool(conn)
		return decision{action: actionRetry}
	}
	epoch, release, err := router.requestAdmission()
	if err != nil {
		router.slot.ReturnToPool(conn)
		return waitForAdmission(err)
	}
	// Between the route lookup and the admission, the shard may have moved to another instance,
	// while the connection leads to the previous one.
	if router.server.upstreams.HasInstances() && !router.exchange.Keyless && epoch != dest.Epoch {
		release()
		router.slot.ReturnToPool(conn)
		return decision{action: actionRetry}
	}
	if router.exchange.idempotentRan && router.exchange.ranEpoch != epoch {
		release()
		router.slot.ReturnToPool(conn)
		return fail(problem.UpstreamBroken, detailMayHaveRun)
	}
	router.exchange.dequeue()
	router.exchange.hadTurn = true
	router.admission.end = release
	*prepared = attempt{conn: conn, table: table, route: dest, attemptEpoch: attemptEpoch{epoch: epoch}, release: router.releaseAdmitted}
	if router.server.options.NotAcquired != nil {
		prepared.generation = router.server.options.Cluster.Table().Generation()
	}
	return decision{}
}

// waitForAdmission returns the decision for a request that the node did not admit because of
// refused. The request waits for a newer table, which the node publishes when it may admit the
// request, for example when its lease is valid again.
func waitForAdmission(refused error) decision {
	refusal, ok := refused.(route.Refusal) //nolint:errorlint // Admit never wraps it, and this does not allocate
	if !ok {
		refusal = route.RefusedQueued
	}
	reason := route.ReasonMoving
	if refusal == route.RefusedNoLease {
		reason = route.ReasonNoLease
	}
	return decision{action: actionWait, reason: reason, refusal: refusal}
}

// attemptRemote makes one attempt at the node that owns the shard.
func (router *router) attemptRemote(table *route.Table, dest *route.Route) decision {
	if !router.exchange.mayRunInEpoch(dest.Epoch) {
		return fail(problem.PeerUnreachable, detailMayHaveRun)
	}
	pool, useStream := router.server.upstreams.Peers.Pool(dest.Node), false
	if router.fitsStream() {
		useStream = pool.SmallRequests.Add(1) > router.server.streamThreshold
		defer pool.SmallRequests.Add(-1)
	}
	if queue := router.exchange.requiredQueue(pool); queue != nil {
		return router.exchange.waitBehind(queue)
	}
	conn, result := router.acquirePeerConn(pool, useStream)
	if conn == nil {
		return result
	}
	// Begin the run before checking the table, so that CancelForwarded, which is called after a
	// table change, finds the run.
	if !router.begin(route.Remote, conn, &dest.Node) {
		router.slot.ReturnToPool(conn)
		return done
	}
	if router.server.options.Cluster.Table() != table {
		router.slot.ReturnToPool(conn)
		if router.closing.Load() {
			return done
		}
		return decision{action: actionRetry}
	}
	router.exchange.dequeue()
	return router.runner.runTimed(&attempt{conn: conn, table: table, route: dest, attemptEpoch: attemptEpoch{epoch: dest.Epoch}, release: noop})
}

// requestAdmission requests admission like admit. It also refuses a request that must run in another
// ownership epoch, and a request whose key was found with a previous key configuration.
func (router *router) requestAdmission() (epoch uint64, release func(), err error) {
	epoch, release, err = router.admit()
	if err != nil {
		return 0, nil, err
	}
	if required := router.exchange.requiredEpoch; required != 0 && required != epoch {
		release()
		return 0, nil, route.RefusedNotOwner
	}
	keysNow := router.keysBy(router.server.options.Cluster.Table())
	if !router.exchange.Keyless && keysNow != router.exchange.keys {
		release()
		return 0, nil, route.RefusedQueued
	}
	return epoch, release, nil
}

// admit requests admission from the node for the request's shard. For a request without a shard,
// the node only needs a lease.
func (router *router) admit() (epoch uint64, release func(), err error) {
	if !router.exchange.Keyless {
		return router.server.options.Cluster.Admit(router.exchange.shard)
	}
	if router.server.options.Cluster.LeaseLeft() <= 0 {
		return 0, nil, route.RefusedNoLease
	}
	return 0, noop, nil
}

// admission is the cluster's permission to run the current request. The request is counted as
// in-flight for its shard until release is called.
type admission struct {
	end func() // decrements the in-flight count of the shard; nil means that there is no admission
	// keyPermit and concurrencyPermit count the request among the requests of its key, for
	// Settings.MaxKeyInflight and keylimit.Limit.Concurrent.
	keyPermit, concurrencyPermit keylimit.Permit
	// shardPermit counts the request among the requests of its shard; see router.enterShard.
	shardPermit keylimit.Permit
}

// isActive reports whether the request is admitted, or holds a permit of its key or shard.
func (a *admission) isActive() bool {
	return a.end != nil || a.keyPermit.IsHeld() || a.concurrencyPermit.IsHeld() || a.shardPermit.IsHeld()
}

// releasePermits releases the permits of the request's key and shard. It is called early for upgraded
// connections and event streams, which do not count.
func (a *admission) releasePermits() {
	a.keyPermit.Release()
	a.shardPermit.Release()
	a.concurrencyPermit.Release()
}

// extend makes release call end instead of the previous end function, which end receives as an
// argument.
func (a *admission) extend(end func(previous func())) {
	previous := a.end
	a.end = func() { end(previous) }
}

// release ends the admission of the request, which decrements the in-flight count of its shard. The
// key's next request may then run. Further calls have no effect.
func (a *admission) release() {
	if end := a.end; end != nil {
		a.end = nil
		end()
	}
	a.releasePermits()
}

// begin begins a run on the upstream connection conn. It returns false if the client's connection
// is being closed.
func (router *router) begin(kind route.Kind, conn *connpool.Conn, node *string) bool {
	flags := uint64(0)
	if router.exchange.Keyless {
		flags = inflight.Keyless
	}
	if router.exchange.methodIsSafe {
		flags |= inflight.Safe
	}
	router.slot.Begin(kind, router.exchange.shard, flags, conn, node)
	return !router.closing.Load()
}
