package proxy

import (
	"time"

	"shardway/internal/problem"
	"shardway/proxy/backoff"
	"shardway/proxy/cause"
	"shardway/proxy/connpool"
	"shardway/proxy/loadstats"
	"shardway/proxy/metrics"
	"shardway/proxy/route"
	"shardway/proxy/wsession"
	"shardway/proxy/wsrelay"
)

// CountUpgraded returns the number of upgraded connections to the app of this node.
func (s *Server) CountUpgraded() int {
	return s.load.WebSockets()
}

// Sessions that wait for a relay are released in batches of resumeBatch, one batch per
// resumeInterval. The resulting rate is the same as for requests, which are released in larger
// batches. A large batch of WebSockets would delay requests that arrive at the same time.
const (
	resumeBatch    = 4
	resumeInterval = 3 * time.Millisecond
)

// webSocketRun is a relay of a resumable WebSocket, together with the attempt that started it.
type webSocketRun struct {
	wsrelay.Relay

	attempt    attempt
	load       *loadstats.Counters // counters of the shard; nil means none
	sentBefore int64               // bytes sent to the client before the relay
}

// startRelay starts the relay of the last response. It returns before the relay ends.
func (c *client) startRelay() {
	c.relay.webSocket.Start(c.goroutines, func(n int) {
		c.server.webSockets.parkedDirections.Add(int32(n))
		c.server.conns.ChangeParkedDirections(c, n)
	})
}

// createSession creates the session of a request for a WebSocket that may be resumable.
func (c *client) createSession() {
	if c.req.RequestsWebSocket() && !c.settings.CloseSockets {
		c.exchange.session = wsrelay.NewSession()
		c.escaped = true
		c.session.Store(c.exchange.session)
		if accepted := c.exchange.accepted; accepted != nil {
			c.exchange.session.SetFirstMessage(accepted.Frame, accepted.Scanner)
		}
	}
}

// requiredQueue returns the backoff.ShardQueue that the request must join before it is sent to the
// destination of pool. It returns nil if the request can be sent now.
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
	case runner.exchange.accepted != nil && attempt.conn.InProcess:
		attempt.cancelUnsent()
		return fail(problem.UpstreamBroken, "an app in the process of its node cannot accept a WebSocket")
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
		session.MayHaveReachedApp = runner.exchange.isResumption()
		upgrades := &attempt.conn.Pool.UpgradeBackoff
		result := runner.runAttempt(attempt)
		if session.MayHaveReachedApp && !session.RelayStarted {
			upgrades.OnAccepted(0)
		}
		return result
	}
	if attempt.conn.InProcess { // an app in this process cannot upgrade
		if session.RefusalCode = wsession.CloseShardMoved; runner.exchange.isResumption() {
			attempt.cancelUnsent()
			return done
		}
		return runner.runAttempt(attempt)
	}
	if session.ResumeAttempts > 0 || runner.exchange.isResumption() {
		if upgradeQueue := runner.acquireUpgrade(attempt); upgradeQueue != nil {
			attempt.cancelUnsent()
			return decision{action: actionWait, reason: route.ReasonUnreachable, refusal: route.RefusedBusy, condition: upgradeQueue}
		}
	}
	currentRun := runner.slot.Load()
	release, ok := runner.server.webSockets.exclusive.Acquire(runner.wait.context(), session.ID, func() { cancelRun(runner.slot, currentRun, cause.ClientGone, runner.server.metrics) })
	if !ok {
		session.ReleaseUpgrade()
		attempt.cancelUnsent()
		return decision{action: actionWait, reason: route.ReasonUnreachable, refusal: route.RefusedBusy, backoff: true}
	}
	// The end of the admission must also release the exclusive use and the upgrade slot.
	runner.admission.extend(func(end func()) {
		session.ReleaseUpgrade()
		end()
		release()
	})
	session.MayHaveReachedApp = runner.exchange.isResumption()
	return runner.runAttempt(attempt)
}

// wasReplaced reports whether the run was cancelled because a newer request of the same session has
// arrived, which means that the ingress has given up on the older one.
func (retry *retrier) wasReplaced(cancelCause cause.Cause) bool {
	return cancelCause == cause.ClientGone && retry.ingress != "" && retry.exchange.session != nil && retry.body.ClientErr == nil
}

// yieldToNewerRun ends a replaced run together with its connection, without cancelling the newer
// run.
func (retry *retrier) yieldToNewerRun() decision {
	retry.exchange.connAborted = true
	return done
}

// acquireUpgrade reserves one of the wsession.MaxUpgrades slots for resumed WebSockets. If none is
// free, it returns the backoff.ShardQueue that the request must join.
func (runner *attemptRunner) acquireUpgrade(attempt *attempt) *backoff.ShardQueue {
	upgrades, n := &attempt.conn.Pool.UpgradeBackoff, &runner.server.webSockets.upgrades
	if upgradeQueue := upgrades.Allow(0, true); upgradeQueue != nil {
		return upgradeQueue
	}
	if n.Add(1) > wsession.MaxUpgrades {
		n.Add(-1)
		return upgrades.OnRefused(0, false)
	}
	runner.exchange.session.ReleaseUpgradePlace = func() {
		n.Add(-1)
		upgrades.OnAccepted(0)
	}
	return nil
}
