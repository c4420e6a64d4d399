package proxy

import (
	"context"
	"time"

	"shardway/internal/problem"
	"shardway/proxy/h1"
	"shardway/shardmap"
)

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
	c.extra = c.x.appendTries(c.extra)
	c.writeAnswer(421, nil, c.extra)
	c.s.metrics.request(Remote, 421)
}
