package proxy

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"shardway/proxy/backoff"
	"shardway/proxy/connpool"
	"shardway/proxy/metrics"
	"shardway/proxy/route"
	"shardway/proxy/wsession"
	"shardway/queue"
)

// CountUpgraded returns the number of upgraded connections to the app of this node.
func (s *Server) CountUpgraded() int {
	return s.load.WebSockets()
}

// Sessions that wait for a relay are released in batches of resumeBatch, one batch per
// resumeInterval. The resulting rate is the same as for requests. Requests are released in larger
// batches, but a large batch of WebSockets would delay requests that arrive at the same time.
const (
	resumeBatch    = 4
	resumeInterval = 3 * time.Millisecond
)

// webSockets is the state of all resumable WebSockets of a node.
type webSockets struct {
	queue            *queue.Queue // sessions that wait for a relay
	upgrades         atomic.Int32 // resumed WebSockets that await an upgrade response
	relays           atomic.Int32 // running relays
	parkedDirections atomic.Int32 // parked directions of the running relays
	pacer            wsession.ReconnectPacer
	summary          wsession.HandoverSummary

	handovers wsession.HandoverPacer

	exclusive wsession.ExclusiveUse

	probe struct {
		sync.Mutex           // held while the app is probed
		startedAt  time.Time // start of the last probe; see appRefuses
		refused    bool      // result of the last probe
	}
}

// probeDuration is how long an app must keep a probe connection open to be treated as alive. A dying
// process may still accept connections for a moment after it has lost older ones: the kernel closes
// its sockets in any order, and afterwards resets the connections that have not been accepted.
const probeDuration = 100 * time.Millisecond

// appRefuses reports whether the app no longer accepts connections after a relay has ended. When an
// app dies, many relays call appRefuses at the same time, so a result is shared. A probe that began
// after the call is valid for the caller. A negative result stays valid for sweepEvery. A
// connection that was accepted before a relay ended proves nothing about that relay.
func (s *Server) appRefuses() bool {
	if s.upstream == nil || s.upstream.Breaker.IsTripped() {
		return true
	}
	probe := &s.webSockets.probe
	relayEnded := time.Now()
	probe.Lock()
	defer probe.Unlock()
	if probe.startedAt.After(relayEnded) || probe.refused && relayEnded.Sub(probe.startedAt) < sweepEvery {
		return probe.refused
	}
	probe.startedAt = time.Now()
	ctx, cancel := context.WithTimeout(s.lifeCtx, s.settings.Load().ConnectTimeout)
	defer cancel()
	conn, err := s.options.DialUpstream(ctx)
	probe.refused = err != nil || !staysOpen(conn)
	return probe.refused
}

// staysOpen reports whether a new connection stays open for probeDuration. It closes the connection.
func staysOpen(conn net.Conn) bool {
	defer func() { _ = conn.Close() }()
	if conn.SetReadDeadline(time.Now().Add(probeDuration)) != nil {
		return false
	}
	_, err := conn.Read(make([]byte, 1))
	return err == nil || errors.Is(err, os.ErrDeadlineExceeded)
}

// createSession creates the session of a request for a WebSocket that may be resumable.
func (c *client) createSession() {
	if isWebSocketRequest(&c.req) && !c.settings.CloseSockets {
		c.exchange.session = newSession()
		c.escaped = true
		c.session.Store(c.exchange.session)
	}
}

// requiredQueue returns the backoff.ShardQueue that the request must join before it is sent to the
// destination of pool. nil means that it can be sent now.
func (exchange *exchange) requiredQueue(pool *connpool.Pool) *backoff.ShardQueue {
	if exchange.isResumption() {
		return pool.UpgradeBackoff.Allow(0, true)
	}
	queue := pool.Backoff.Allow(exchange.limitShard(), exchange.hasWaited && exchange.eventStream == nil)
	if queue != nil && exchange.eventStream != nil && queue.OwnerSheds() {
		return nil // the exceeded limit does not apply to resumed streams
	}
	return queue
}

// runByKind runs an attempt of a WebSocket, of a resumed event stream, or of any other request.
func (runner *attemptRunner) runByKind(attempt *attempt) decision {
	switch {
	case runner.exchange.session != nil:
		return runner.runWebSocket(attempt)
	case runner.exchange.eventStream != nil && attempt.conn.InProcess: // an app in this process cannot resume an event stream
		attempt.cancelUnsent()
		runner.reply.endStream(metrics.ResumeImpossible, "an app in the process of its node cannot resume an event stream")
		return done
	}
	return runner.runAttempt(attempt)
}

// runWebSocket runs an attempt of a request for a resumable WebSocket. The response may start a
// relay.
func (runner *attemptRunner) runWebSocket(attempt *attempt) decision {
	session := runner.exchange.session
	if attempt.route.Kind != route.Local {
		session.mayHaveReachedApp = runner.exchange.isResumption()
		upgrades := &attempt.conn.Pool.UpgradeBackoff
		result := runner.runAttempt(attempt)
		if session.mayHaveReachedApp && !session.relayStarted {
			upgrades.OnAccepted(0)
		}
		return result
	}
	if attempt.conn.InProcess { // an app in this process cannot upgrade
		if session.refusalCode = wsession.CloseShardMoved; runner.exchange.isResumption() {
			attempt.cancelUnsent()
			return done
		}
		return runner.runAttempt(attempt)
	}
	if session.resumeAttempts > 0 || runner.exchange.isResumption() {
		if upgradeQueue := runner.acquireUpgrade(attempt); upgradeQueue != nil {
			attempt.cancelUnsent()
			return decision{action: actionWait, reason: route.ReasonUnreachable, refusal: route.RefusedBusy, condition: upgradeQueue}
		}
	}
	currentRun := runner.slot.load()
	release, ok := runner.server.webSockets.exclusive.Acquire(runner.wait.context(), session.id, func() { runner.server.cancelIn(runner.slot, currentRun, causeClientGone) })
	if !ok {
		session.releaseUpgrade()
		attempt.cancelUnsent()
		return decision{action: actionWait, reason: route.ReasonUnreachable, refusal: route.RefusedBusy, backoff: true}
	}
	// The end of the admission must also release the exclusive use and the upgrade place.
	runner.admission.extend(func(end func()) {
		session.releaseUpgrade()
		end()
		release()
	})
	session.mayHaveReachedApp = runner.exchange.isResumption()
	return runner.runAttempt(attempt)
}

// wasReplaced reports whether the run was cancelled because a newer request of the same session has
// arrived. In that case, the ingress has given up the older request.
func (retry *retrier) wasReplaced(cancelCause cause) bool {
	return cancelCause == causeClientGone && retry.ingress != "" && retry.exchange.session != nil && retry.body.clientErr == nil
}

// yieldToNewerRun ends a run that was replaced, together with its connection. It must not cancel the
// newer run in turn.
func (retry *retrier) yieldToNewerRun() decision {
	retry.exchange.connAborted = true
	return done
}

// acquireUpgrade reserves one of the wsession.MaxUpgrades places for resumed WebSockets. If no place
// is free, it returns the backoff.ShardQueue that the request must join.
func (runner *attemptRunner) acquireUpgrade(attempt *attempt) *backoff.ShardQueue {
	upgrades, n := &attempt.conn.Pool.UpgradeBackoff, &runner.server.webSockets.upgrades
	if upgradeQueue := upgrades.Allow(0, true); upgradeQueue != nil {
		return upgradeQueue
	}
	if n.Add(1) > wsession.MaxUpgrades {
		n.Add(-1)
		return upgrades.OnRefused(0, false)
	}
	runner.exchange.session.releaseUpgradePlace = func() {
		n.Add(-1)
		upgrades.OnAccepted(0)
	}
	return nil
}

// releaseUpgrade releases the place reserved by acquireUpgrade, if the session still holds one. It
// is called when the app has responded to the upgrade, or when the connection is closed.
func (session *webSocketSession) releaseUpgrade() {
	if release := session.releaseUpgradePlace; release != nil {
		session.releaseUpgradePlace = nil
		release()
	}
}

// sweepSession closes the WebSocket of a session on a node that is leaving, so that the client
// connects to another node. Each session is assigned a random time within ReconnectSpread, so that
// the clients do not all reconnect at once.
func (s *Server) sweepSession(c *client, session *webSocketSession, now time.Duration) {
	if !s.closing.Load() {
		return
	}
	if session.reconnectAt == 0 {
		session.reconnectAt = now + 1 + time.Duration(rand.Int64N(max(int64(s.options.ReconnectSpread), 1))) //nolint:gosec // math/rand suffices to spread the load
	}
	if now < session.reconnectAt {
		return
	}
	if relay := c.slot.webSocket.Load(); relay != nil {
		relay.request(requestReconnect | requestStop | requestCloseFrame)
		relay.abortUpstreamAfter(streamEndTimeout)
	}
	if cancelWait := session.cancelWait.Load(); cancelWait != nil {
		(*cancelWait)()
	}
}

// sweepRelay requests the hand-over of a relay whose shard moves. The ingress requests it
// immediately. The owner waits for the request of the ingress, and starts the hand-over itself
// after wsession.HandoverDelay.
func (s *Server) sweepRelay(c *client, current run, table *route.Table, now time.Duration) {
	relay := c.slot.webSocket.Load()
	if relay == nil || current.flags&slotKeyless != 0 {
		return
	}
	if int(current.shard) < table.Shards() && !isMoving(current, c.slot.node.Load(), table.Route(current.shard)) {
		c.moveSeenAt = 0
		return
	}
	if c.moveSeenAt == 0 {
		c.moveSeenAt = now
		if relay.toClient {
			s.webSockets.handovers.Enqueue(func() { relay.request(requestMove) })
		}
	}
	if now-c.moveSeenAt >= wsession.HandoverDelay {
		relay.request(requestMove)
	}
}

// isMoving reports whether the shard of a relay moves away from its current destination. If the
// owner merely does not respond, the shard is not treated as moving, because the owner may still
// serve it.
func isMoving(current run, node *string, dest *route.Route) bool {
	if current.kind == route.Remote && dest.Kind == route.Held {
		return dest.Reason == route.ReasonMoving || dest.Reason == route.ReasonRestarting
	}
	return !runsAtRoute(current, node, dest)
}
