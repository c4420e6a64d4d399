package proxy

import (
	"shardway/internal/problem"
	"shardway/proxy/h1"
	"shardway/proxy/route"
	"shardway/shardmap"
)

// readForwarded reads what the ingress says.
func (a *requestState) readForwarded() (committed, proposed uint64, ok bool) {
	committed, proposed, ok1 := route.ParseEpochs(a.req.Known(h1.FieldShardwayMap))
	name := a.req.Known(h1.FieldShardwayShard)
	shard, ok2 := route.ParseUint(name)
	switch {
	case ok1 && string(name) == shardNone:
		a.x.Keyless = true
	case !ok1 || !ok2 || shard > maxShard:
		return 0, 0, false
	default:
		a.x.shard, a.x.sharded = shardmap.Shard(shard), true
	}
	if v := a.req.Known(h1.FieldShardwayEpoch); v != nil {
		if a.x.wantEpoch, ok = route.ParseUint(v); !ok {
			return 0, 0, false
		}
	}
	a.x.tries = triesOf(&a.req.Header)
	if a.x.wasResumed, _ = route.ParseUint(a.req.Value(headerResumed)); a.x.wasResumed > 0 {
		a.x.safety = unsafeMethod // it goes again with a higher number only, which the ingress gives it
	}
	if isWebSocketRequest(&a.req) && !a.x.Keyless && !a.set.CloseSockets {
		if a.x.session = readSession(&a.req); a.x.session != nil && a.x.session.resumed > 0 {
			a.x.safety = unsafeMethod // as above
		}
	}
	a.x.Minted = len(a.req.Value(headerMinted)) > 0
	switch v := a.req.Value(headerContinue); string(v) {
	case continueClient:
		a.x.onDemand, a.x.clientExpects = true, true
	case continueNode:
		a.x.onDemand = true
	case continueTell:
		a.x.wantAccepted = true
	}
	return committed, proposed, true
}

// maxShard is the highest number a shard can have.
const maxShard = 1<<16 - 1

// serveAsOwner goes by the table until the request is answered or refused.
func (c *client) serveAsOwner(t *route.Table) {
	first := t.Proposed()
	for {
		v := c.attemptAsOwner(t)
		if v.action == actionWait && v.reason == route.ReasonAcquiring && t.Proposed() == first {
			v = c.awaitAcquire(v, t)
		}
		switch v.action {
		case actionRetry:
			t = c.s.o.Cluster.Table()
			continue
		case actionWait:
			if c.wait.pause(v) {
				t = c.s.o.Cluster.Table()
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

// awaitAcquire has a forwarded request wait for the app to acquire its shard, and look
// again now and then whether there is still a lease. Without one the app is not told to
// acquire anything, and the request is refused: each that waits here takes up a connection,
// so that for what comes behind it another one is made; and what waits here when the shard
// is taken counts as sent. What finds no place in the queue waits at its ingress, in line,
// as for an app that is busy. What the app itself has sent back waits for the node to hear
// of that.
func (c *client) awaitAcquire(v decision, t *route.Table) decision {
	if v.backoff = t.Route(c.x.shard).Kind == route.Held; v.backoff && c.s.o.Cluster.LeaseLeft() <= 0 {
		v.refusal = route.RefusedNoLease
		return v
	}
	v.generation = t.Generation()
	if v = c.waitFor(v); v.code == problem.QueueFull {
		// There may be room where its client is.
		return decision{action: actionWait, reason: route.ReasonAcquiring, refusal: route.RefusedBusy}
	}
	return v
}
