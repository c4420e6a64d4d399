package proxy

import (
	"context"
	"strconv"
	"time"

	"shardway/internal/problem"
	"shardway/proxy/h1"
	"shardway/shardmap"
)

// owner serves a request that another node forwarded, or refuses it. It never
// forwards it (G8), and it waits no longer than ownerWait: requests wait where
// their client is.
func (c *client) owner() {
	committed, proposed, ok := c.readForwarded()
	if !ok {
		c.answer(&problem.Problem{Code: problem.Misrouted, Detail: "not a forwarded request"})
		c.x.keep = false
		return
	}
	t := c.s.o.Cluster.Table()
	if committed > t.committed || proposed > t.proposed {
		// Without a lease there is nothing to wait for, and what waits here when
		// the shard is taken counts as sent: a node whose disk hangs is behind
		// for seconds.
		if c.s.o.Cluster.LeaseLeft() <= 0 {
			c.refuse(RefusedNoLease)
			return
		}
		if !c.catchUp(committed, proposed) {
			c.refuse(RefusedHeld)
			return
		}
		t = c.s.o.Cluster.Table()
	}
	if int(c.x.shard) >= t.Shards() {
		c.refuse(RefusedHeld)
		return
	}
	for {
		v := c.ownerAttempt(t)
		switch v.step {
		case stepAgain:
			t = c.s.o.Cluster.Table()
			continue
		case stepHold:
			if c.ownerPause(v) {
				t = c.s.o.Cluster.Table()
				continue
			}
			c.ownerHold(v)
		case stepFail:
			if !c.down.Load() {
				c.answerFailure(v)
			}
		case stepDone:
		}
		return
	}
}

// ownerAttempt runs the request if this node owns its shard.
func (c *client) ownerAttempt(t *Table) verdict {
	if c.x.keyless {
		return c.local(t, &c.s.keyless)
	}
	r := t.Route(c.x.shard)
	if r.Kind != Local {
		return verdict{step: stepHold, refusal: refusalFor(r)}
	}
	if err := c.gather(); err != nil {
		return c.badBody(err)
	}
	return c.local(t, r)
}

// ownerPause waits a moment with a safe request whose connections broke: of an app
// that dies one after the other does. True means that it may go again; how often,
// goAgain bounds.
func (c *client) ownerPause(v verdict) bool {
	if v.refusal != 0 || c.x.safety != safeMethod || c.down.Load() {
		return false
	}
	timer := time.NewTimer(firstPause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-c.ctx.Done():
		return false
	}
}

// ownerHold says no to a request that would have to wait. One that may have run
// is told so, whatever the ingress thinks of it.
func (c *client) ownerHold(v verdict) {
	switch {
	case c.down.Load():
	case c.x.mayHaveRun() && c.x.safety != safeMethod:
		c.answerFailure(fail(problem.UpstreamBroken, mayHaveRun))
	case v.refusal == 0:
		c.answerFailure(verdict{step: stepFail, code: v.code, detail: v.detail})
	default:
		c.refuse(v.refusal)
	}
}

// catchUp waits a little for this node's log to get to where the ingress's is.
func (c *client) catchUp(committed, proposed uint64) bool {
	ctx, cancel := context.WithTimeout(c.ctx, ownerWait)
	defer cancel()
	return c.s.o.Cluster.Await(ctx, committed, proposed)
}

// readForwarded reads what the ingress says.
func (c *client) readForwarded() (committed, proposed uint64, ok bool) {
	committed, proposed, ok1 := parseMap(c.req.Known(h1.FieldShardwayMap))
	name := c.req.Known(h1.FieldShardwayShard)
	shard, ok2 := parseUint(name)
	switch {
	case ok1 && string(name) == shardNone:
		c.x.keyless = true
	case !ok1 || !ok2 || shard > maxShard:
		return 0, 0, false
	default:
		c.x.shard, c.x.sharded = shardmap.Shard(shard), true
	}
	if v := c.req.Known(h1.FieldShardwayEpoch); v != nil {
		if c.x.wantEpoch, ok = parseUint(v); !ok {
			return 0, 0, false
		}
	}
	c.x.tries = triesOf(&c.req.Head)
	switch v := c.req.Value(headerContinue); string(v) {
	case continueClient:
		c.x.onDemand, c.x.clientExpects = true, true
	case continueNode:
		c.x.onDemand = true
	case continueTell:
		c.x.tells = true
	}
	return committed, proposed, true
}

// maxShard is the highest number a shard can have.
const maxShard = 1<<16 - 1

// refuse tells the ingress that the request was not run, and by which map. The
// body has not been read.
func (c *client) refuse(why Refusal) {
	c.s.metrics.refused[why].Add(1)
	t := c.s.o.Cluster.Table()
	c.extra = append(c.extra[:0], "Shardway-Refused: "...)
	c.extra = append(c.extra, why.String()...)
	c.extra = append(c.extra, "\r\n"+lineMap...)
	c.extra = append(c.extra, t.mapValue...)
	c.extra = append(c.extra, "\r\n"+lineNode...)
	c.extra = append(c.extra, c.s.o.Node...)
	c.extra = append(c.extra, "\r\n"...)
	c.extra = c.appendTries(c.extra)
	c.writeAnswer(421, nil, c.extra)
	c.s.metrics.request(Remote, 421)
}

// probe answers a request for Options.ProbePath.
func (c *client) probe() bool {
	path := c.set.ProbePath
	if path == "" || string(c.req.Path()) != path || c.s.o.Probe == nil {
		return false
	}
	status, text := 200, "ready\n"
	if ready, reason := c.s.o.Probe(); !ready {
		status, text = 503, reason+"\n"
	}
	c.writeAnswer(status, []byte(text), []byte("Content-Type: text/plain; charset=utf-8\r\nCache-Control: no-store\r\n"))
	return true
}

// appendStatusLine appends a status line with the usual words.
func appendStatusLine(b []byte, status int, text string) []byte {
	b = append(b, "HTTP/1.1 "...)
	b = strconv.AppendInt(b, int64(status), 10)
	b = append(b, ' ')
	b = append(b, text...)
	return append(b, "\r\n"...)
}
