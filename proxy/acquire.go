package proxy

import (
	"errors"
	"net"
	"time"

	"shardway/internal/problem"
	"shardway/proxy/backoff"
	"shardway/proxy/connpool"
	"shardway/proxy/route"
	"shardway/proxy/upstream"
)

// h1.Conn.SendChecked checks immediately before the first byte is sent whether the connection is alive, so
// one call must send the whole request.
const (
	maxCheckedBody = 4 << 10 // maximum size in bytes of the body of such a request
	framingReserve = 16      // bytes for the framing of a chunk
)

// sendsChecked reports whether the request can be sent with h1.Conn.SendChecked. The result may
// still change before the request is sent.
func (state *requestState) sendsChecked() bool {
	isSmall := state.body.IsFullyBuffered() && len(state.body.Buffered) <= maxCheckedBody
	return isSmall && !state.exchange.ingressNeedsAcceptance
}

// acquireConn returns an idle connection, or waits for the next connection that is returned or
// dialed. If it returns no connection, decision is what to do instead: retry, wait or fail.
func (wait *requestWait) acquireConn(pool *connpool.Pool) (*connpool.Conn, decision) {
	requireNew := wait.exchange.reusedConnAttempts >= maxReusedTries
	// At another node, requests precede resumed WebSockets, so a resumed WebSocket must join the queue.
	mustJoinQueue := pool.IsForNode() && wait.exchange.isResumption()
	if !requireNew && !mustJoinQueue {
		if conn := wait.acquireIdleConn(pool, nil); conn != nil {
			return conn, decision{}
		}
	}
	hasWaitedAtIngress := wait.exchange.hasWaited && wait.ingress == ""
	waiter := &connpool.Waiter{
		Shard: wait.exchange.limitShard(), RequireRecent: wait.requiresRecentConn(), MaxInflight: wait.maxInflight(pool), RequireNew: requireNew,
		ForUpgrade:    wait.exchange.isResumption(), // a resumed WebSocket sends an upgrade request and then keeps the connection
		StreamAllowed: wait.exchange.mayUseStream(),
		HasWaited:     hasWaitedAtIngress, MaxQueued: wait.maxQueued(pool), HadTurn: wait.exchange.hadTurn,
	}
	conn, dialed, err := pool.Join(waiter)
	for {
		if conn == nil && err == nil {
			conn, err = wait.waitInQueue(pool, waiter, dialed)
		}
		if err != nil {
			return nil, wait.decideAfterAcquireError(pool, err)
		}
		if isUsable(conn, waiter) {
			pool.ProbeWithIdle() // this connection works, so other idle ones may work even though dials fail
			return conn, decision{}
		}
		// Accept any usable connection from now on: otherwise the request could discard one returned
		// connection after another.
		waiter.RequireNew = false
		conn, dialed, err = pool.Replace(waiter, conn)
	}
}

// isUsable reports whether a pooled connection meets the request's requirements. A reused connection must still be
// open. If the request must not be sent twice, the connection must also support a liveness check
// (connpool.Conn.Checkable).
func isUsable(conn *connpool.Conn, waiter *connpool.Waiter) bool {
	if !conn.Reused {
		return true
	}
	if waiter.RequireNew || !conn.IsAlive() {
		return false
	}
	return !waiter.RequireRecent || conn.Checkable
}

// requiresRecentConn reports whether the request needs a recently used connection, because it must not be sent
// twice, or because it may already have run on a connection that broke.
func (wait *requestWait) requiresRecentConn() bool {
	return wait.exchange.safety != safeMethod || wait.exchange.mayHaveRun()
}

// maxInflight returns the limit of requests in progress for the shard; zero means no limit. Resumed
// streams have no limit, because they were admitted before their shard moved. The processes of a shard have
// separate pools, so router.enterShard limits their requests.
func (wait *requestWait) maxInflight(pool *connpool.Pool) int {
	if pool.IsForNode() || wait.server.options.Processes != nil || wait.exchange.eventStream != nil || wait.exchange.senderResumeCount > 0 {
		return 0
	}
	return wait.serviceSettings().MaxShardInflight
}

// maxQueued returns how many requests may wait at the owner for a limit of the shard; zero means none.
func (wait *requestWait) maxQueued(pool *connpool.Pool) int {
	if wait.maxInflight(pool) == 0 {
		return 0
	}
	return wait.serviceSettings().ShardQueue
}

// acquireIdleConn returns an idle connection, or nil. If loop is not nil, it prefers a connection that is
// registered with loop.
func (wait *requestWait) acquireIdleConn(pool *connpool.Pool, loop connpool.EventLoop) *connpool.Conn {
	return pool.Get(connpool.Requirements{
		Shard: wait.exchange.limitShard(), RequireRecent: wait.requiresRecentConn(), MaxInflight: wait.maxInflight(pool), CheckedOnSend: wait.sendsChecked(), Loop: loop,
	})
}

// waitInQueue waits in the queue of the pool. isDialed is set if a connection for the request is being dialed.
// Otherwise the request must wait for other requests to finish, and at its ingress it then also needs a slot in the
// node's wait queue. With --shard-queue, requests wait at the owner in order of arrival, so a forwarded request
// waits like a client's request.
func (wait *requestWait) waitInQueue(pool *connpool.Pool, waiter *connpool.Waiter, isDialed bool) (*connpool.Conn, error) {
	waitsLong := wait.ingress == "" || waiter.MaxQueued > 0
	limit := ownerWait
	if waitsLong {
		limit = wait.timeLeft(time.Now()) // dialing counts toward the waiting time
	}
	if pool.ShardMoved(waiter, wait.server.options.Cluster.Table()) {
		_ = pool.LeaveQueue(waiter)
		return nil, connpool.ErrRouteChanged
	}
	if isDialed {
		dialLimit := wait.server.settings.Load().ConnectTimeout + ownerWait
		return pool.Await(waiter, wait.context().Done(), max(limit, dialLimit))
	}
	if waitsLong {
		if result := wait.enterQueue(); result.action != 0 {
			_ = pool.LeaveQueue(waiter)
			return nil, &queueFullError{result}
		}
	}
	wait.disconnect.Arm()
	wait.disconnect.Start()
	defer wait.disconnect.Disarm()
	return pool.Await(waiter, wait.context().Done(), limit)
}

// queueFullError ends a wait for a connection because the wait queue of the node is full.
type queueFullError struct{ result decision } // how the request continues

func (err *queueFullError) Error() string { return err.result.detail }

// isTimeout reports whether err is the timeout of a network operation.
func isTimeout(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}

// decideIfEnded returns the decision for a request that must not keep waiting, because the client's connection is
// being closed or the request queue is full.
func (wait *requestWait) decideIfEnded(err error) (result decision, ended bool) {
	var queueFull *queueFullError
	switch {
	case wait.closing.Load():
		return done, true
	case errors.As(err, &queueFull):
		return queueFull.result, true
	}
	return decision{}, false
}

// decideAfterAcquireError converts the error of acquireConn into a decision.
func (wait *requestWait) decideAfterAcquireError(pool *connpool.Pool, err error) decision {
	if result, ended := wait.decideIfEnded(err); ended {
		return result
	}
	switch {
	case errors.Is(err, connpool.ErrRouteChanged):
		return decision{action: actionRetry}
	case errors.Is(err, connpool.ErrShardInflightLimit):
		return wait.exchange.failShardInflight()
	}
	result := decision{action: actionWait, reason: route.ReasonUnreachable, backoff: true}
	if pool.Breaker.IsTripped() {
		result.condition, result.backoff = &pool.Breaker, false
	}
	if errors.Is(err, connpool.ErrBreakerOpen) {
		err = pool.Breaker.Cause()
	}
	if failed, ok := wait.decideAfterProcessError(err); ok {
		return failed
	}
	if errors.Is(err, backoff.ErrNoApp) {
		result.refusal = route.RefusedNoApp
		return result
	}
	if pool.IsForNode() {
		if report := wait.server.options.PeerUnreachable; report != nil {
			report(pool.Node())
		}
		result.code, result.detail = problem.PeerUnreachable, upstream.UnreachableReason(err, &wait.server.options.Log)
		return result
	}
	result.code, result.refusal, result.detail = wait.describeAppError(err)
	return result
}

// describeAppError returns the problem for a request that got no connection to this node's app because of err.
// refusal is the reason reported to the ingress of a forwarded request.
func (wait *requestWait) describeAppError(err error) (code problem.Code, refusal route.Refusal, detail string) {
	switch {
	case errors.Is(err, connpool.ErrShardConnLimit):
		return problem.UpstreamBusy, route.RefusedBusy, "all connections to the app that one shard may use are busy (--max-shard-conns)"
	case errors.Is(err, connpool.ErrBusy):
		return problem.UpstreamBusy, route.RefusedBusy, "all connections to the app are busy (--max-upstream-conns)"
	case errors.Is(err, connpool.ErrDialing): // a dial is still in progress, so the app has not failed
		return problem.QueueTimeout, route.RefusedBusy, "no connection to the app was made in time for the request"
	case errors.Is(err, connpool.ErrStopping): // the request must wait for the next owner of the shard
		return problem.QueueTimeout, route.RefusedQueued, "this node is stopping"
	case isTimeout(err):
		return problem.UpstreamConnectTimeout, route.RefusedNoApp, upstream.UnreachableReason(err, &wait.server.options.Log)
	}
	return problem.UpstreamRefused, route.RefusedNoApp, upstream.UnreachableReason(err, &wait.server.options.Log)
}
