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
// whole request. askBody is the maximum size of the body, and askFrame is the space for the framing
// of a chunk.
const (
	askBody  = 4 << 10
	askFrame = 16
)

// sendsChecked reports whether the request can be sent with h1.Conn.SendChecked. The result may
// still change before the request is sent.
func (a *requestState) sendsChecked() bool {
	return a.body.isFullyBuffered() && len(a.body.buffered) <= askBody && !a.exchange.wantAccepted
}

// acquireConn returns an idle connection, or waits for the next connection that is returned or
// dialed. If it returns nil, the decision tells what follows.
func (w *requestWait) acquireConn(p *connpool.Pool) (*connpool.Conn, decision) {
	fresh, maxInflight := w.mustBeFresh(), w.maxInflight(p)
	newOnly := w.exchange.reusedTries >= maxReusedTries
	if !newOnly && (!p.IsForNode() || !w.exchange.isResumption()) {
		if l := w.takeIdleConn(p, nil); l != nil {
			return l, decision{}
		}
	}
	in := &connpool.Waiter{Shard: w.exchange.limitShard(), Fresh: fresh, MaxInflight: maxInflight, NewOnly: newOnly, ForUpgrade: w.exchange.isResumption(), StreamAllowed: w.exchange.mayUseStream(), HasWaited: w.exchange.waited && w.ingress == ""}
	for {
		l, dialed, err := p.Join(in)
		if l == nil && err == nil {
			l, err = w.waitInQueue(p, in, dialed)
		}
		switch {
		case err != nil:
			return nil, w.acquireFailed(p, err)
		case !l.Reused, !in.NewOnly && l.IsAlive() && (!fresh || l.Checkable):
			p.ProbeWithIdle()
			return l, decision{}
		}
		p.Discard(l) // the pool dials another one
		in.NewOnly = false
	}
}

// mustBeFresh reports whether the request needs a recently used connection, because it must not be
// sent twice or because another connection has broken.
func (w *requestWait) mustBeFresh() bool {
	return w.exchange.safety != safeMethod || w.exchange.mayHaveRun()
}

// maxInflight returns the limit of requests in progress for the shard; zero means no limit. Resumed
// streams have no limit, because they were admitted before their shard moved.
func (w *requestWait) maxInflight(p *connpool.Pool) int {
	if p.IsForNode() || w.exchange.resumed != nil || w.exchange.wasResumed > 0 {
		return 0
	}
	return w.settings.MaxShardInflight
}

// takeIdleConn returns an idle connection, or nil. It prefers a connection that is registered with
// the event loop by.
func (w *requestWait) takeIdleConn(p *connpool.Pool, by connpool.EventLoop) *connpool.Conn {
	return p.Get(connpool.Requirements{Shard: w.exchange.limitShard(), Fresh: w.mustBeFresh(), MaxInflight: w.maxInflight(p), CheckedOnSend: w.sendsChecked(), Loop: by})
}

// waitInQueue waits in the queue of the pool. dialed means that a connection for the request is
// being dialed. Otherwise the request has to wait for other requests to finish, and also needs a
// place in the wait queue of the node.
func (w *requestWait) waitInQueue(p *connpool.Pool, in *connpool.Waiter, dialed bool) (*connpool.Conn, error) {
	limit := ownerWait
	if w.ingress == "" {
		limit = w.timeLeft(time.Now()) // dialing counts towards the waiting time
	}
	if p.ShardMoved(in, w.server.options.Cluster.Table()) {
		_ = p.LeaveQueue(in)
		return nil, connpool.ErrRouteChanged
	}
	if dialed {
		return p.Await(in, w.context().Done(), max(limit, w.server.settings.Load().ConnectTimeout+ownerWait))
	}
	if w.ingress == "" {
		if v := w.enterQueue(); v.action != 0 {
			_ = p.LeaveQueue(in)
			return nil, &queueFullError{v}
		}
	}
	w.disconnect.arm()
	w.disconnect.start()
	defer w.disconnect.disarm()
	return p.Await(in, w.context().Done(), limit)
}

// queueFullError ends a wait for a connection because the wait queue of the node is full.
type queueFullError struct{ v decision }

func (e *queueFullError) Error() string { return e.v.detail }

// isTimeout reports whether err is the timeout of a network operation.
func isTimeout(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}

// acquireFailed converts the error of acquireConn into a decision.
func (w *requestWait) acquireFailed(p *connpool.Pool, err error) decision {
	var full *queueFullError
	switch {
	case w.closing.Load():
		return done
	case errors.As(err, &full):
		return full.v
	case errors.Is(err, connpool.ErrRouteChanged):
		return decision{action: actionRetry}
	case errors.Is(err, connpool.ErrShardInflightLimit):
		return w.exchange.shardInflightFull()
	}
	v := decision{action: actionWait, reason: route.ReasonUnreachable, backoff: true}
	if p.Breaker.IsTripped() {
		v.condition, v.backoff = &p.Breaker, false
	}
	if errors.Is(err, connpool.ErrBreakerOpen) {
		err = p.Breaker.Cause()
	}
	switch {
	case errors.Is(err, backoff.ErrNoApp):
		v.refusal = route.RefusedNoApp
		return v
	case p.IsForNode():
		v.code = problem.PeerUnreachable
	case errors.Is(err, connpool.ErrShardConnLimit):
		v.code, v.refusal = problem.UpstreamBusy, route.RefusedBusy
		v.detail = "all connections to the app that one shard may use are busy (--max-shard-conns)"
		return v
	case errors.Is(err, connpool.ErrBusy):
		v.code, v.refusal = problem.UpstreamBusy, route.RefusedBusy
		v.detail = "all connections to the app are busy (--max-upstream-conns)"
		return v
	case errors.Is(err, connpool.ErrDialing):
		// A dial is still in progress, so the app has not failed.
		v.code, v.refusal = problem.QueueTimeout, route.RefusedBusy
		v.detail = "no connection to the app was made in time for the request"
		return v
	case errors.Is(err, connpool.ErrStopping):
		// The request must wait for the next owner of the shard.
		v.code, v.refusal = problem.QueueTimeout, route.RefusedHeld
		v.detail = "this node is stopping"
		return v
	case isTimeout(err):
		v.code, v.refusal = problem.UpstreamConnectTimeout, route.RefusedNoApp
	default:
		v.code, v.refusal = problem.UpstreamRefused, route.RefusedNoApp
	}
	v.detail = w.server.unreachableReason(err)
	return v
}
