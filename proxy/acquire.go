package proxy

import (
	"errors"
	"net"
	"time"

	"shardway/internal/problem"
	"shardway/proxy/backoff"
	"shardway/proxy/connpool"
	"shardway/proxy/route"
)

// SendChecked checks the connection right before the first byte is sent, so one call must send the
// whole request. maxCheckedBody is the maximum size of the body, and framingReserve is the space for the framing
// of a chunk.
const (
	maxCheckedBody = 4 << 10
	framingReserve = 16
)

// sendsChecked reports whether the request can be sent with h1.Conn.SendChecked. The result may
// still change before the request is sent.
func (state *requestState) sendsChecked() bool {
	return state.body.isFullyBuffered() && len(state.body.buffered) <= maxCheckedBody && !state.exchange.wantsAcceptance
}

// acquireConn returns an idle connection, or waits for the next connection that is returned or
// dialed. If it returns nil, the decision determines how the request continues.
func (w *requestWait) acquireConn(pool *connpool.Pool) (*connpool.Conn, decision) {
	fresh, maxInflight := w.mustBeFresh(), w.maxInflight(pool)
	newOnly := w.exchange.triesOnReusedConns >= maxReusedTries
	if !newOnly && (!pool.IsForNode() || !w.exchange.isResumption()) {
		if conn := w.takeIdleConn(pool, nil); conn != nil {
			return conn, decision{}
		}
	}
	waiter := &connpool.Waiter{Shard: w.exchange.limitShard(), Fresh: fresh, MaxInflight: maxInflight, NewOnly: newOnly, ForUpgrade: w.exchange.isResumption(), StreamAllowed: w.exchange.mayUseStream(), HasWaited: w.exchange.hasWaited && w.ingress == ""}
	for {
		conn, dialed, err := pool.Join(waiter)
		if conn == nil && err == nil {
			conn, err = w.waitInQueue(pool, waiter, dialed)
		}
		switch {
		case err != nil:
			return nil, w.acquireFailed(pool, err)
		case !conn.Reused, !waiter.NewOnly && conn.IsAlive() && (!fresh || conn.Checkable):
			pool.ProbeWithIdle()
			return conn, decision{}
		}
		pool.Discard(conn) // the pool dials another one
		waiter.NewOnly = false
	}
}

// mustBeFresh reports whether the request needs a recently used connection, because it must not be
// sent twice or because another connection has broken.
func (w *requestWait) mustBeFresh() bool {
	return w.exchange.safety != safeMethod || w.exchange.mayHaveRun()
}

// maxInflight returns the limit of requests in progress for the shard; zero means no limit. Resumed
// streams have no limit, because they were admitted before their shard moved.
func (w *requestWait) maxInflight(pool *connpool.Pool) int {
	if pool.IsForNode() || w.exchange.eventStream != nil || w.exchange.senderResumeCount > 0 {
		return 0
	}
	return w.settings.MaxShardInflight
}

// takeIdleConn returns an idle connection, or nil. It prefers a connection that is registered with
// the event loop by.
func (w *requestWait) takeIdleConn(pool *connpool.Pool, loop connpool.EventLoop) *connpool.Conn {
	return pool.Get(connpool.Requirements{Shard: w.exchange.limitShard(), Fresh: w.mustBeFresh(), MaxInflight: w.maxInflight(pool), CheckedOnSend: w.sendsChecked(), Loop: loop})
}

// waitInQueue waits in the queue of the pool. dialed means that a connection for the request is
// being dialed. Otherwise the request has to wait for other requests to finish, and also needs a
// place in the wait queue of the node.
func (w *requestWait) waitInQueue(pool *connpool.Pool, waiter *connpool.Waiter, dialed bool) (*connpool.Conn, error) {
	limit := ownerWait
	if w.ingress == "" {
		limit = w.timeLeft(time.Now()) // dialing counts towards the waiting time
	}
	if pool.ShardMoved(waiter, w.server.options.Cluster.Table()) {
		_ = pool.LeaveQueue(waiter)
		return nil, connpool.ErrRouteChanged
	}
	if dialed {
		return pool.Await(waiter, w.context().Done(), max(limit, w.server.settings.Load().ConnectTimeout+ownerWait))
	}
	if w.ingress == "" {
		if result := w.enterQueue(); result.action != 0 {
			_ = pool.LeaveQueue(waiter)
			return nil, &queueFullError{result}
		}
	}
	w.disconnect.arm()
	w.disconnect.start()
	defer w.disconnect.disarm()
	return pool.Await(waiter, w.context().Done(), limit)
}

// queueFullError ends a wait for a connection because the wait queue of the node is full.
type queueFullError struct{ v decision }

func (err *queueFullError) Error() string { return err.v.detail }

// isTimeout reports whether err is the timeout of a network operation.
func isTimeout(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}

// acquireFailed converts the error of acquireConn into a decision.
func (w *requestWait) acquireFailed(pool *connpool.Pool, err error) decision {
	var queueFull *queueFullError
	switch {
	case w.closing.Load():
		return done
	case errors.As(err, &queueFull):
		return queueFull.v
	case errors.Is(err, connpool.ErrRouteChanged):
		return decision{action: actionRetry}
	case errors.Is(err, connpool.ErrShardInflightLimit):
		return w.exchange.shardInflightFull()
	}
	result := decision{action: actionWait, reason: route.ReasonUnreachable, backoff: true}
	if pool.Breaker.IsTripped() {
		result.condition, result.backoff = &pool.Breaker, false
	}
	if errors.Is(err, connpool.ErrBreakerOpen) {
		err = pool.Breaker.Cause()
	}
	switch {
	case errors.Is(err, backoff.ErrNoApp):
		result.refusal = route.RefusedNoApp
		return result
	case pool.IsForNode():
		result.code = problem.PeerUnreachable
	case errors.Is(err, connpool.ErrShardConnLimit):
		result.code, result.refusal = problem.UpstreamBusy, route.RefusedBusy
		result.detail = "all connections to the app that one shard may use are busy (--max-shard-conns)"
		return result
	case errors.Is(err, connpool.ErrBusy):
		result.code, result.refusal = problem.UpstreamBusy, route.RefusedBusy
		result.detail = "all connections to the app are busy (--max-upstream-conns)"
		return result
	case errors.Is(err, connpool.ErrDialing):
		// A dial is still in progress, so the app has not failed.
		result.code, result.refusal = problem.QueueTimeout, route.RefusedBusy
		result.detail = "no connection to the app was made in time for the request"
		return result
	case errors.Is(err, connpool.ErrStopping):
		// The request must wait for the next owner of the shard.
		result.code, result.refusal = problem.QueueTimeout, route.RefusedHeld
		result.detail = "this node is stopping"
		return result
	case isTimeout(err):
		result.code, result.refusal = problem.UpstreamConnectTimeout, route.RefusedNoApp
	default:
		result.code, result.refusal = problem.UpstreamRefused, route.RefusedNoApp
	}
	result.detail = w.server.unreachableReason(err)
	return result
}
