package proxy

import (
	"context"
	"errors"
	"net"
	"time"

	"shardway/internal/problem"
	"shardway/queue"
)

const (
	firstPause = 10 * time.Millisecond
	lastPause  = 200 * time.Millisecond
	// ownerWait is for how long an owner that is behind its log, or whose
	// connections are all in use, lets a forwarded request wait.
	ownerWait = 100 * time.Millisecond
)

// hold waits as v says, at the node that has the client, and returns stepAgain
// when it is worth another look, else what to answer. All waiting of a request
// together takes QueueWait at most.
func (c *client) hold(v verdict) verdict {
	began := time.Now()
	left := c.timeLeft(began)
	if left <= 0 {
		return c.expired(v)
	}
	if failed := c.enter(); failed.step != 0 {
		return failed
	}
	if !c.x.waited {
		c.x.waited = true
		c.s.metrics.held[v.reason].Add(1)
	}
	c.gone.arm()
	c.gone.start()
	err := c.wait(v, left)
	c.gone.disarm()
	c.s.metrics.heldNanos[v.reason].Add(int64(time.Since(began)))
	switch {
	case c.down.Load() || errors.Is(err, queue.ErrGone):
		return done
	case err != nil:
		return c.expired(v)
	}
	return verdict{step: stepAgain}
}

// wait does the waiting; nil means another look.
func (c *client) wait(v verdict, left time.Duration) error {
	limit := left
	if v.backoff {
		c.x.pause = min(max(2*c.x.pause, firstPause), lastPause)
		limit = min(left, c.x.pause)
	}
	if t := c.s.o.Cluster.Table(); v.committed > t.committed || v.proposed > t.proposed {
		ctx, cancel := context.WithTimeout(c.ctx, left)
		defer cancel()
		if !c.s.o.Cluster.Await(ctx, v.committed, v.proposed) {
			return queue.ErrTimeout
		}
		return nil
	}
	return c.x.ticket.Wait(c.ctx.Done(), v.seen, limit)
}

// timeLeft returns what is left of QueueWait, which starts with the first call.
func (c *client) timeLeft(now time.Time) time.Duration {
	if c.x.deadline.IsZero() {
		c.x.deadline = now.Add(c.s.o.QueueWait)
	}
	return c.x.deadline.Sub(now)
}

// enter takes a place in the queue, unless the request has one.
func (c *client) enter() verdict {
	if c.x.ticket != nil {
		return verdict{}
	}
	ticket, err := c.s.o.Room.Enter(uint32(c.x.shard), int64(len(c.req.Raw())+len(c.body)))
	switch {
	case err != nil && c.x.mayHaveRun():
		return c.expired(verdict{})
	case errors.Is(err, queue.ErrShare):
		return fail(problem.QueueFull, "too many requests for this shard are waiting")
	case err != nil:
		return fail(problem.QueueFull, "too many requests are waiting")
	}
	c.x.ticket = ticket
	return verdict{}
}

// expired makes the verdict of a request whose time is over.
func (c *client) expired(v verdict) verdict {
	if c.x.mayHaveRun() {
		return fail(brokenCode(c.x.route), mayHaveRun)
	}
	if v.code == "" {
		v.code, v.detail = problem.QueueTimeout, "no node served the shard in time: "+v.reason.String()
		switch {
		case v.refusal == RefusedNoLease, v.reason == ReasonNoMap, v.reason == ReasonNoLease:
			v.code = problem.NoLeader
		case v.refusal == RefusedNoApp:
			v.code, v.detail = problem.UpstreamRefused, "the app behind the owner accepts no connections"
		case v.refusal == RefusedBusy:
			v.code, v.detail = problem.UpstreamBusy, ""
		case v.refusal == RefusedNotOwner && v.reason == ReasonRefused:
			v.detail = "the node that owns the shard by this node's map refused it"
		}
	}
	v.step = stepFail
	return v
}

// link gets a connection: an idle one, a new one, or for the app one that
// somebody gives back, after a wait. Without one it returns the verdict. An empty
// node is the app.
func (c *client) link(p *pool, node string) (*link, verdict) {
	// Where one connection broke, others may have.
	fresh := c.x.safety != safeMethod || c.x.mayHaveRun()
	l, dial := p.take(fresh)
	if l != nil && c.x.stale >= maxStale {
		_ = l.Close() // its place is used for a new one
		l.Release()
		l, dial = nil, true
	}
	if l != nil {
		return l, verdict{}
	}
	if !dial {
		var v verdict
		if l, v = c.awaitLink(p); v.step != 0 {
			return nil, v
		}
		if l != nil && l.Alive() && (!fresh || l.socket) {
			return l, verdict{}
		}
		if l != nil {
			_ = l.Close() // its place is used for a new one
			l.Release()
		}
	}
	c.timeLeft(time.Now()) // connecting counts as waiting
	var left bool
	var err error
	if node == "" {
		l, err = p.connect(c.ctx)
	} else {
		l, left, err = c.connectPeer(p, node)
	}
	switch {
	case err == nil:
		return l, verdict{}
	case c.down.Load():
		return nil, done
	case left:
		return nil, verdict{step: stepAgain}
	}
	v := verdict{step: stepHold, reason: ReasonUnreachable, backoff: true}
	var slow net.Error
	switch timedOut := errors.As(err, &slow) && slow.Timeout(); {
	case node != "":
		v.code = problem.PeerUnreachable
	case timedOut:
		v.code, v.refusal = problem.ConnectTimeout, RefusedNoApp
	default:
		v.code, v.refusal = problem.UpstreamRefused, RefusedNoApp
	}
	v.detail = err.Error()
	return nil, v
}

// awaitLink waits until a connection or a place for one comes free; both nil
// mean a place.
func (c *client) awaitLink(p *pool) (*link, verdict) {
	limit := ownerWait
	if c.ingress == "" {
		limit = c.timeLeft(time.Now())
		if failed := c.enter(); failed.step != 0 {
			return nil, failed
		}
	}
	c.gone.arm()
	c.gone.start()
	l, err := p.await(c.ctx.Done(), limit)
	c.gone.disarm()
	switch {
	case err == nil:
		return l, verdict{}
	case c.down.Load():
		return nil, done
	}
	return nil, verdict{
		step: stepHold, reason: ReasonUnreachable, refusal: RefusedBusy, backoff: true,
		code: problem.UpstreamBusy, detail: "all connections to the app are in use",
	}
}
