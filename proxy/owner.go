package proxy

import (
	"shardway/internal/problem"
	"shardway/proxy/eventrelay"
	"shardway/proxy/h1"
	"shardway/proxy/route"
	"shardway/proxy/wsrelay"
	"shardway/shardmap"
)

// readForwarded reads the headers in which the ingress describes the request: its shard, the
// expected ownership epoch, and the epochs of the ingress's table. ok is false if a required header
// is missing or invalid.
func (state *requestState) readForwarded() (committed, proposed uint64, ok bool) {
	committed, proposed, ok = route.ParseEpochs(state.req.Known(h1.FieldShardwayMap))
	if !ok || !state.readService() || !state.readShard() || !state.readRequiredEpoch() {
		return 0, 0, false
	}
	state.exchange.tries = triesOf(&state.req.Header)
	state.exchange.Minted = len(state.req.Value(headerMinted)) > 0
	state.readResumption()
	state.readContinue()
	return committed, proposed, true
}

// readShard reads the shard of a forwarded request. It returns false if the header is missing or
// invalid. Instead of a number, the header may state that the request has no key.
func (state *requestState) readShard() bool {
	value := state.req.Known(h1.FieldShardwayShard)
	if string(value) == shardNone {
		state.exchange.Keyless = true
		return true
	}
	shard, ok := route.ParseUint(value)
	if !ok || shard > maxShard {
		return false
	}
	state.exchange.shard, state.exchange.hasShard = shardmap.Shard(shard), true
	state.exchange.serviceShard = state.exchange.shard
	return true
}

// readRequiredEpoch reads the only ownership epoch in which a forwarded request may run, if it has
// one. It returns false if the header is invalid.
func (state *requestState) readRequiredEpoch() (ok bool) {
	value := state.req.Known(h1.FieldShardwayEpoch)
	if value == nil {
		return true
	}
	state.exchange.requiredEpoch, ok = route.ParseUint(value)
	return ok
}

// readResumption reads whether a forwarded request resumes an event stream or a WebSocket. If so,
// this node must send it only once, because the ingress retries it with a higher resume number.
func (state *requestState) readResumption() {
	state.exchange.senderResumeCount, _ = route.ParseUint(state.req.Value(eventrelay.HeaderResumed))
	if state.exchange.senderResumeCount > 0 {
		state.exchange.safety = unsafeMethod
	}
	mayBeResumable := state.req.RequestsWebSocket() && !state.exchange.Keyless && !state.settings.CloseSockets
	if !mayBeResumable {
		return
	}
	session := wsrelay.ReadSession(&state.req)
	state.exchange.session = session
	if session != nil && session.ResumeAttempts > 0 {
		state.exchange.safety = unsafeMethod
	}
}

// readContinue reads whether the ingress waits for 100 (Continue) before it sends the body, and
// whether the client or the ingress asked for it. It also reads whether the ingress only needs to
// know about the acceptance.
func (state *requestState) readContinue() {
	switch string(state.req.Value(headerContinue)) {
	case continueClient:
		state.exchange.ingressHoldsBody, state.exchange.clientExpectsContinue = true, true
	case continueNode:
		state.exchange.ingressHoldsBody = true
	case continueAcceptance:
		state.exchange.ingressNeedsAcceptance = true
	}
}

// maxShard is the highest valid shard number.
const maxShard = 1<<16 - 1

// serveAsOwner routes a forwarded request until it has a response or is refused. A decision to
// retry or to wait replaces table with the current routing table.
func (router *router) serveAsOwner(table *route.Table) {
	proposedAtStart := table.Proposed()
	for {
		result := router.attemptAsOwner(table)
		waitsForAcquire := result.action == actionWait && result.reason == route.ReasonAcquiring
		if waitsForAcquire && table.Proposed() == proposedAtStart {
			result = router.awaitAcquire(result, table)
		}
		switch result.action {
		case actionRetry:
			table = router.server.options.Cluster.Table()
			continue
		case actionWait:
			if router.wait.pause(result) {
				table = router.server.options.Cluster.Table()
				continue
			}
			if !router.closing.Load() {
				router.returnToken()
				router.reply.refuseWait(result)
			}
		case actionFail:
			if !router.closing.Load() {
				router.reply.sendFailure(result)
			}
		case actionDone, actionNextStream, actionRelay, actionReroute:
			// Nothing left to do. actionReroute occurs only at the ingress.
		}
		return
	}
}

// awaitAcquire lets a forwarded request wait until the app has acquired its shard. table is the
// routing table with which result was decided.
//
// If this node holds no lease, awaitAcquire refuses the request, because without a lease the app is
// not told to acquire a shard. A request that waits here occupies a connection from its ingress,
// which must open another one for later requests. Moreover, once the shard is acquired, the ingress
// must assume that the request has reached the app.
//
// If the queue of this node is full, the request waits at its ingress instead, as for a busy app.
// If the app itself rejected the request because it had not acquired the shard, backoff is not set,
// and the wait ends with the next table.
func (router *router) awaitAcquire(result decision, table *route.Table) decision {
	result.backoff = table.Route(router.exchange.shard).Kind == route.Queued
	if result.backoff && router.server.options.Cluster.LeaseLeft() <= 0 {
		result.refusal = route.RefusedNoLease
		return result
	}
	result.generation = table.Generation()
	if result = router.waitFor(result); result.code == problem.QueueFull {
		// The queue of the ingress may have room.
		return decision{action: actionWait, reason: route.ReasonAcquiring, refusal: route.RefusedBusy}
	}
	return result
}
