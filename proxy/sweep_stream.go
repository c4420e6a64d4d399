package proxy

import (
	"time"

	"shardway/proxy/cause"
	"shardway/proxy/inflight"
	"shardway/proxy/route"
)

// countAsStream removes the connection of a long response from the limit of upstream connections,
// and counts it as a stream instead.
func (sweeper *sweeper) countAsStream(c *client, current inflight.Run) {
	alreadyCounted := c.streamRun == current.Number
	if alreadyCounted || sweeper.longLived.IsFull() {
		return
	}
	conn := c.slot.Conn.Load()
	isStillRunning := func() bool {
		latest := c.slot.Load()
		return latest.Kind != 0 && latest.Number == current.Number
	}
	if conn.Pool.Detach(conn, isStillRunning) {
		c.streamRun = current.Number
	}
}

// sweepStream ends a tunnel or an event stream after a grace period. The period starts when the
// shard of the stream has moved, or when this node starts to leave. After that, an event stream has
// up to streamEndTimeout to end between two events.
func (sweeper *sweeper) sweepStream(c *client, current inflight.Run, table *route.Table, grace, now time.Duration) {
	cancelCause := sweeper.causeOfStreamEnd(c, current, table)
	if cancelCause == cause.None {
		c.moveSeenAt = 0
		return
	}
	if c.moveSeenAt == 0 {
		c.moveSeenAt = now
	}
	if !current.Has(inflight.Events) {
		if now-c.moveSeenAt >= grace {
			cancelRun(&c.slot, current, cancelCause, sweeper.metrics)
		}
		return
	}
	overdue := now - c.moveSeenAt - sweeper.eventStreamGrace(c, current, cancelCause, grace)
	if overdue < 0 {
		return
	}
	hasEnded := c.slot.Events.RequestEnd(current.Number)
	if hasEnded || overdue >= streamEndTimeout {
		cancelRun(&c.slot, current, cancelCause, sweeper.metrics)
	}
}

// causeOfStreamEnd returns why a tunnel or an event stream must end soon: its shard has moved, or
// the node is leaving. It returns cause.None if the stream may continue.
func (sweeper *sweeper) causeOfStreamEnd(c *client, current inflight.Run, table *route.Table) cause.Cause {
	hasShard := !current.Has(inflight.Keyless) && int(current.Shard) < table.Shards()
	if hasShard && !runsAtRoute(current, c.slot.Node.Load(), table.Route(current.Shard)) {
		return cause.ShardMoved
	}
	if sweeper.lifecycle.IsStopping() && !sweeper.continuesForPeer(c, current) {
		return cause.Leaving
	}
	return cause.None
}

// continuesForPeer reports whether a run is a resumable event stream of another node while this
// node still serves other nodes. If the stream ended, its ingress would immediately resume it at
// this node. It ends once requests for the shard are queued.
func (sweeper *sweeper) continuesForPeer(c *client, current inflight.Run) bool {
	isForwarded := c.ingress != "" && sweeper.lifecycle.ServesPeers()
	return isForwarded && current.Has(inflight.Events) && c.slot.Events.IsResumable(current.Number)
}

// eventStreamGrace returns the grace period of an event stream that must end because of cancelCause.
// grace is the grace period of other streams.
func (sweeper *sweeper) eventStreamGrace(c *client, current inflight.Run, cancelCause cause.Cause, grace time.Duration) time.Duration {
	isResumable := c.slot.Events.IsResumable(current.Number)
	if cancelCause == cause.ShardMoved && isResumable {
		return 0 // the new owner resumes it, so there is no need to wait
	}
	onlyForwards := cancelCause == cause.Leaving && current.Kind == route.Remote
	if onlyForwards && !isResumable {
		// The owner is not leaving, so the stream continues until shortly before the end of the
		// drain. It then has streamEndTimeout to end between two events, and its client has the
		// same time again to read the rest before abortStuckClient aborts the connection.
		latestEnd := sweeper.lifecycle.DrainDeadline() - 2*streamEndTimeout
		return max(grace, latestEnd-c.moveSeenAt)
	}
	return grace
}

// abortStuckClient aborts the connection of a client that does not read if this has delayed the end
// of a cancelled run for streamEndTimeout, because the shard's next owner may be waiting for that
// end.
func abortStuckClient(c *client, current inflight.Run, now time.Duration) {
	if c.cancelledRun != current.Number {
		c.cancelledRun, c.cancelledAt = current.Number, now
		return
	}
	if now-c.cancelledAt >= streamEndTimeout && c.slot.Load().Number == current.Number {
		_ = c.inbound.Abort() // its goroutine receives an error
	}
}

// runsAtRoute reports whether a request runs at the destination to which the routing table now
// sends requests for its shard. dest is the route of the shard. node is the node that the request
// was forwarded to, or nil if it runs at this node. If requests are queued because the owner is
// paused or has no lease, the result is true, because the owner has not changed. If they are queued
// for another reason, it is true only for a forwarded request.
func runsAtRoute(current inflight.Run, node *string, dest *route.Route) bool {
	switch dest.Kind {
	case route.Queued:
		ownerKeepsShard := dest.Reason == route.ReasonNoLease || dest.Reason == route.ReasonPaused
		return ownerKeepsShard || current.Kind == route.Remote
	case route.Remote:
		return current.Kind == route.Remote && node != nil && *node == dest.Node
	case route.Local:
	}
	return current.Kind == route.Local
}
