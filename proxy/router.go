package proxy

import (
	"sync/atomic"

	"shardway/internal/problem"
	"shardway/proxy/connpool"
	"shardway/proxy/metrics"
	"shardway/proxy/route"
	"shardway/proxy/shardkey"
	"shardway/proxy/wsession"
)

// router finds the owner of a request's shard, and makes attempts there until the client has a
// response.
type router struct {
	*requestState
	reply           reply
	keys            *shardkey.Extractor
	wait            *requestWait
	runner          *attemptRunner
	retrier         *retrier
	slot            *slot
	admission       *admission
	closing         *atomic.Bool // client.closing
	life            *lifetime
	releaseAdmitted func() // bound method admission.release
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
		case actionFail:
		}
		switch {
		case result.action != actionFail || router.closing.Load():
		case router.exchange.eventStream != nil:
			router.reply.endStream(metrics.ResumeTimedOut, result.detail)
		default:
			router.reply.sendFailure(result)
		}
		return
	}
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
	startedAt := account.now()
	result = router.wait.waitFor(result)
	account.queueWait += account.since(startedAt)
	return result
}

// attemptAsOwner runs the forwarded request if this node owns its shard.
func (router *router) attemptAsOwner(table *route.Table) decision {
	if router.exchange.Keyless {
		return router.attemptLocal(table, &router.server.keyless)
	}
	if router.exchange.senderEpoch < table.KeysSince() {
		return decision{action: actionWait, reason: route.ReasonMoving, refusal: route.RefusedHeld} // the ingress has used an older key configuration
	}
	router.exchange.keys = router.keysBy(table)
	dest := table.Route(router.exchange.shard)
	if dest.Kind != route.Local {
		return waitForRoute(dest)
	}
	if err := router.body.bufferSmallBody(router.exchange.bodyOnDemand, router.settings.MaxBodyTotal); err != nil {
		return router.reply.rejectBody(err)
	}
	return router.attemptLocal(table, dest)
}

// attemptByTable makes one attempt at the destination to which the table routes the request.
func (router *router) attemptByTable(table *route.Table) decision {
	if table.Shards() == 0 {
		return decision{action: actionWait, reason: route.ReasonNoMap, refusal: route.RefusedHeld}
	}
	if keys := router.keysBy(table); keys != router.exchange.keys {
		if result := router.rekey(keys); result.action != 0 {
			return result
		}
	}
	router.exchange.resolveShard(table)
	if router.quarantined() {
		if router.exchange.isResumption() { // the client of a WebSocket has its response already
			router.exchange.session.refusalCode, router.exchange.session.closeReason = wsession.CloseTryLater, wsession.ReasonQuarantined
			return done
		}
		return fail(problem.Quarantined, router.exchange.addMayHaveRun("requests of this key go nowhere until an operator lifts that (shardway quarantine)"))
	}
	switch {
	case router.exchange.Keyless && router.server.upstream == nil:
		var dest *route.Route
		if router.exchange.shard, dest = table.RandomRemoteShard(); dest.Kind == route.Remote {
			return router.attemptRemote(table, &route.Route{Kind: route.Remote, Node: dest.Node})
		}
		return waitForRoute(dest)
	case router.exchange.Keyless:
		return router.attemptLocal(table, &router.server.keyless)
	}
	dest := table.Route(router.exchange.shard)
	switch dest.Kind {
	case route.Local:
		return router.attemptLocal(table, dest)
	case route.Remote:
		return router.attemptRemote(table, dest)
	case route.Held:
	}
	return waitForRoute(dest)
}

// attemptLocal makes one attempt on the app of this node.
func (router *router) attemptLocal(table *route.Table, dest *route.Route) decision {
	if router.server.upstream == nil {
		return fail(problem.Misrouted, "this node is a gateway: it has no app")
	}
	if router.req.RequestsUpgrade() && router.server.streams.IsFull() {
		return fail(problem.UpstreamBusy, "the maximum number of streams and upgraded connections is open (--max-streams)")
	}
	conn, result := router.wait.acquireConn(router.server.upstream)
	if conn == nil {
		return result
	}
	prepared := &attempt{}
	if result := router.admitAttempt(prepared, conn, table, dest); result.action != 0 {
		return result
	}
	return router.runner.runTimed(prepared)
}

// admitAttempt begins a run of the request on conn, and requests admission from the node. If the
// node refuses, it returns conn to the pool. The zero decision means that prepared can be run.
func (router *router) admitAttempt(prepared *attempt, conn *connpool.Conn, table *route.Table, dest *route.Route) decision {
	// Begin the run before requesting admission, so that CancelShards and CancelUpstream, which are
	// called after admissions have ended, find the run.
	if !router.begin(route.Local, conn, nil) {
		router.slot.returnToPool(conn)
		return done
	}
	epoch, release, err := router.admit()
	if err == nil && (router.exchange.requiredEpoch != 0 && router.exchange.requiredEpoch != epoch) {
		release()
		err = route.RefusedNotOwner
	}
	if err == nil && !router.exchange.Keyless && router.keysBy(router.server.options.Cluster.Table()) != router.exchange.keys {
		release()
		err = route.RefusedHeld // the key configuration has changed since the key was extracted
	}
	if err != nil {
		router.slot.returnToPool(conn)
		refusal, ok := err.(route.Refusal) //nolint:errorlint // Admit returns it bare, and this allocates nothing
		if !ok {
			refusal = route.RefusedHeld
		}
		reason := route.ReasonMoving
		if refusal == route.RefusedNoLease {
			reason = route.ReasonNoLease
		}
		// The request waits for a newer table, which the node also publishes when its lease is
		// valid again.
		return decision{action: actionWait, reason: reason, refusal: refusal}
	}
	if router.exchange.idempotentRan && router.exchange.ranEpoch != epoch {
		release()
		router.slot.returnToPool(conn)
		return fail(problem.UpstreamBroken, detailMayHaveRun)
	}
	router.exchange.dequeue()
	router.admission.end = release
	*prepared = attempt{conn: conn, table: table, route: dest, attemptEpoch: attemptEpoch{epoch: epoch}, release: router.releaseAdmitted}
	if router.server.options.NotAcquired != nil {
		prepared.generation = router.server.options.Cluster.Table().Generation()
	}
	return decision{}
}

// attemptRemote makes one attempt at the node that owns the shard.
func (router *router) attemptRemote(table *route.Table, dest *route.Route) decision {
	if router.exchange.idempotentRan && (router.exchange.ranEpoch == 0 || router.exchange.ranEpoch != dest.Epoch) {
		return fail(problem.PeerUnreachable, detailMayHaveRun)
	}
	pool, useStream := router.server.peers.Pool(dest.Node), false
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
	if !router.begin(route.Remote, conn, &dest.Node) || router.server.options.Cluster.Table() != table {
		router.slot.returnToPool(conn)
		if router.closing.Load() {
			return done
		}
		return decision{action: actionRetry}
	}
	router.exchange.dequeue()
	return router.runner.runTimed(&attempt{conn: conn, table: table, route: dest, attemptEpoch: attemptEpoch{epoch: dest.Epoch}, release: noop})
}

// admit requests admission from the node for the request's shard. A request without a shard only
// requires that the node holds a lease.
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
}

// isActive reports whether the request is admitted.
func (a *admission) isActive() bool { return a.end != nil }

// extend makes release call end instead of the previous end function, which end receives as an
// argument.
func (a *admission) extend(end func(previous func())) {
	previous := a.end
	a.end = func() { end(previous) }
}

// release ends the admission of the request, which decrements the in-flight count of its shard. A
// second call has no effect.
func (a *admission) release() {
	if end := a.end; end != nil {
		a.end = nil
		end()
	}
}

// begin begins a run on the upstream connection conn. It returns false if the client's connection
// is being closed.
func (router *router) begin(kind route.Kind, conn *connpool.Conn, node *string) bool {
	flags := uint64(0)
	if router.exchange.Keyless {
		flags = slotKeyless
	}
	if router.exchange.methodIsSafe {
		flags |= slotSafe
	}
	router.slot.begin(kind, router.exchange.shard, flags, conn, node)
	return !router.closing.Load()
}
