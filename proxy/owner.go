package proxy

import (
	"shardway/internal/problem"
	"shardway/proxy/h1"
	"shardway/proxy/route"
	"shardway/shardmap"
)

// readForwarded reads the headers with which the ingress has described the request: its shard, the
// expected ownership epoch, and the epochs of the ingress's table. ok is false if a required header
// is missing or invalid.
func (a *requestState) readForwarded() (committed, proposed uint64, ok bool) {
	committed, proposed, ok1 := route.ParseEpochs(a.req.Known(h1.FieldShardwayMap))
	name := a.req.Known(h1.FieldShardwayShard)
	shard, ok2 := route.ParseUint(name)
	switch {
	case ok1 && string(name) == shardNone:
		a.exchange.Keyless = true
	case !ok1 || !ok2 || shard > maxShard:
		return 0, 0, false
	default:
		a.exchange.shard, a.exchange.sharded = shardmap.Shard(shard), true
	}
	if v := a.req.Known(h1.FieldShardwayEpoch); v != nil {
		if a.exchange.wantEpoch, ok = route.ParseUint(v); !ok {
			return 0, 0, false
		}
	}
	a.exchange.tries = triesOf(&a.req.Header)
	if a.exchange.wasResumed, _ = route.ParseUint(a.req.Value(headerResumed)); a.exchange.wasResumed > 0 {
		a.exchange.safety = unsafeMethod // the ingress retries it, with a higher resume number; this node must not
	}
	if isWebSocketRequest(&a.req) && !a.exchange.Keyless && !a.settings.CloseSockets {
		if a.exchange.session = readSession(&a.req); a.exchange.session != nil && a.exchange.session.resumed > 0 {
			a.exchange.safety = unsafeMethod // as above
		}
	}
	a.exchange.Minted = len(a.req.Value(headerMinted)) > 0
	switch v := a.req.Value(headerContinue); string(v) {
	case continueClient:
		a.exchange.onDemand, a.exchange.clientExpects = true, true
	case continueNode:
		a.exchange.onDemand = true
	case continueTell:
		a.exchange.wantAccepted = true
	}
	return committed, proposed, true
}

// maxShard is the highest valid shard number.
const maxShard = 1<<16 - 1

// serveAsOwner routes a forwarded request until it has a response or is refused. A decision to
// retry or to wait replaces t by the current routing table.
func (c *client) serveAsOwner(t *route.Table) {
	first := t.Proposed()
	for {
		v := c.attemptAsOwner(t)
		if v.action == actionWait && v.reason == route.ReasonAcquiring && t.Proposed() == first {
			v = c.awaitAcquire(v, t)
		}
		switch v.action {
		case actionRetry:
			t = c.server.options.Cluster.Table()
			continue
		case actionWait:
			if c.wait.pause(v) {
				t = c.server.options.Cluster.Table()
				continue
			}
			if !c.closing.Load() {
				c.reply.refuseWait(v)
			}
		case actionFail:
			if !c.closing.Load() {
				c.reply.failure(v)
			}
		case actionDone, actionNextStream, actionRelay:
		}
		return
	}
}

// awaitAcquire lets a forwarded request wait until the app has acquired its shard. t is the routing
// table with which v was decided.
//
// If this node holds no lease, awaitAcquire refuses the request, because the app is not told to
// acquire a shard without a lease. Each waiting request occupies a connection from its ingress,
// which must open another one for later requests. In addition, the ingress regards a request that
// waits here as sent to the app once the shard is acquired.
//
// If the queue of this node is full, the request waits at its ingress instead, as for a busy app.
// If the app itself has returned the request because it had not acquired the shard, backoff is not
// set, and the wait ends when a new table arrives.
func (c *client) awaitAcquire(v decision, t *route.Table) decision {
	if v.backoff = t.Route(c.exchange.shard).Kind == route.Held; v.backoff && c.server.options.Cluster.LeaseLeft() <= 0 {
		v.refusal = route.RefusedNoLease
		return v
	}
	v.generation = t.Generation()
	if v = c.waitFor(v); v.code == problem.QueueFull {
		// The queue of the ingress may have room.
		return decision{action: actionWait, reason: route.ReasonAcquiring, refusal: route.RefusedBusy}
	}
	return v
}
