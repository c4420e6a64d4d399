package proxy

import (
	"math/rand/v2"
	"time"

	"shardway/proxy/inflight"
	"shardway/proxy/route"
	"shardway/proxy/wsession"
	"shardway/proxy/wsrelay"
)

// sweepSession closes the WebSocket of a session on a node that is leaving, so that the client
// connects to another node. Each session is assigned a random time within ReconnectSpread, so that
// the clients do not all reconnect at once.
func (sweeper *sweeper) sweepSession(c *client, session *wsrelay.Session, now time.Duration) {
	if !sweeper.lifecycle.IsStopping() {
		return
	}
	if session.ReconnectAt == 0 {
		session.ReconnectAt = now + 1 + time.Duration(rand.Int64N(max(int64(sweeper.reconnectSpread), 1))) //nolint:gosec // math/rand suffices to spread the load
	}
	if now < session.ReconnectAt {
		return
	}
	if relay := c.slot.WebSocket.Load(); relay != nil {
		relay.RequestReconnect()
	}
	if cancelWait := session.CancelWait.Load(); cancelWait != nil {
		(*cancelWait)()
	}
}

// sweepRelay requests the hand-over of a relay whose shard moves. The ingress requests it immediately. The owner
// waits for the ingress's request, and starts the hand-over itself after wsession.HandoverDelay.
func (sweeper *sweeper) sweepRelay(c *client, current inflight.Run, table *route.Table, now time.Duration) {
	relay := c.slot.WebSocket.Load()
	if relay == nil || current.Flags&inflight.Keyless != 0 {
		return
	}
	if int(current.Shard) < table.Shards() && !isMoving(current, c.slot.Node.Load(), table.Route(current.Shard)) {
		c.moveSeenAt = 0
		return
	}
	if c.moveSeenAt == 0 {
		c.moveSeenAt = now
		if relay.LeadsToClient() {
			sweeper.handovers.Enqueue(relay.RequestHandover)
		}
	}
	if now-c.moveSeenAt >= wsession.HandoverDelay {
		relay.RequestHandover()
	}
}

// isMoving reports whether the shard of a relay is moving away from its current destination. An owner that merely
// does not respond may still serve the shard, so this does not count as a move.
func isMoving(current inflight.Run, node *string, dest *route.Route) bool {
	if current.Kind == route.Remote && dest.Kind == route.Queued {
		return dest.Reason == route.ReasonMoving || dest.Reason == route.ReasonRestarting
	}
	return !runsAtRoute(current, node, dest)
}
