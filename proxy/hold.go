package proxy

import (
	"errors"
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
		return c.x.expired(v)
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
		return c.x.expired(v)
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
		return c.awaitEpochs(t, v)
	}
	if v.gate != nil {
		v.gate.count(1)
		defer v.gate.count(-1)
		return c.x.ticket.WaitAt(c.ctx.Done(), v.seen, 0, v.gate)
	}
	return c.x.ticket.Wait(c.ctx.Done(), v.seen, limit)
}

// awaitEpochs waits until this node's table is of the epochs that an owner spoke
// of. Each comes with a table, and those who wait for it go on by the Room's ramp.
func (c *client) awaitEpochs(t *Table, v verdict) error {
	for ; v.committed > t.committed || v.proposed > t.proposed; t = c.s.o.Cluster.Table() {
		if err := c.x.ticket.Wait(c.ctx.Done(), t.generation, 0); err != nil {
			return err
		}
	}
	return nil
}

// timeLeft returns what is left of QueueWait, which starts with the first call.
func (c *client) timeLeft(now time.Time) time.Duration {
	if c.x.deadline.IsZero() {
		c.x.deadline = now.Add(c.s.o.QueueWait)
	}
	return c.x.deadline.Sub(now)
}

// kept returns how much memory the request keeps while it waits: its head, what there
// is of its body with the room for the rest, and what has been read of what follows.
func (c *client) kept() int64 {
	c.h.Idle()
	return int64(c.h.Kept() + c.req.Kept() + cap(c.up.kept))
}

// enter takes a place in the queue, unless the request has one.
func (c *client) enter() verdict {
	if c.x.ticket != nil {
		return verdict{}
	}
	ticket, err := c.s.o.Room.Enter(c.x.waitsFor(), c.kept())
	switch {
	case err != nil && c.x.mayHaveRun():
		return c.x.expired(verdict{})
	case errors.Is(err, queue.ErrShare):
		return fail(problem.QueueFull, "too many requests for this shard are waiting, or they take up too much memory")
	case err != nil:
		return fail(problem.QueueFull, "too many requests are waiting")
	}
	c.x.ticket = ticket
	return verdict{}
}

// expired makes the verdict of a request whose time is over.
func (x *exchange) expired(v verdict) verdict {
	if x.mayHaveRun() {
		return fail(brokenCode(x.route), mayHaveRun)
	}
	if v.code == "" {
		v.code, v.detail = problem.QueueTimeout, "no node served the shard in time: "+v.reason.String()
		switch {
		case v.refusal == RefusedNoLease, v.reason == ReasonNoMap, v.reason == ReasonNoLease:
			v.code = problem.NoLeader
		case v.refusal == RefusedNoApp:
			v.code, v.detail = problem.UpstreamRefused, "the app behind the shard's owner accepts no connections"
		case v.refusal == RefusedBusy:
			v.code, v.detail = problem.UpstreamBusy, ""
		case v.refusal == RefusedNotOwner && v.reason == ReasonRefused:
			v.detail = "the node that owns the shard according to this node's map refused the request"
		}
	}
	v.step = stepFail
	return v
}
