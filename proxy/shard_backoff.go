package proxy

import (
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"shardway/internal/problem"
	"shardway/proxy/route"
)

// detailShardInflight is the detail of the problem for a request that exceeds the in-flight limit
// of its shard.
const detailShardInflight = "as many requests of the shard are under way as there may be (--max-shard-inflight)"

// shardBackoff holds back requests for shards whose owner has refused requests. The owner refuses a
// request when all connections to its app, or all connections that the shard may use, are in use,
// or when the shard has the maximum number of requests in progress.
//
// Further requests for such a shard wait in the queue. One of them is sent as a probe after 10 ms.
// After each refusal the pause doubles, up to 200 ms. Each request that the app accepts or finishes
// releases one more. So the owner receives about as many requests as it can accept, and thousands
// of waiting requests do not keep two nodes busy with refusals.
type shardBackoff struct {
	room          rooms
	waitingShards atomic.Int32 // number of entries in shards; almost always zero, which makes allow cost one atomic load

	mu     sync.Mutex
	shards map[int]*shardWait
}

// shardWait is the set of requests that wait for one shard. It is removed from shards when no
// request waits any more.
type shardWait struct {
	b     *shardBackoff
	shard int
	over  atomic.Bool // removed from shards; written with b.mu held
	// sheds means that the owner sends a final error response to requests that have not waited for
	// the shard before.
	sheds atomic.Bool

	waiting int // number of waiting requests; b.mu protects this and the following fields
	probes  int // number of requests that may be sent now
	pause   time.Duration
	timer   *time.Timer
}

var _ waitable = (*shardWait)(nil)

// allow returns nil if a request for the shard may be sent now. Otherwise it returns the shardWait
// that the request must join. waited means that the request has already waited for the shard; a
// request that has not waited is never sent while the owner sheds.
func (b *shardBackoff) allow(shard int, waited bool) *shardWait {
	if b.waitingShards.Load() == 0 {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	c := b.shards[shard]
	if c == nil || c.probes == 0 || !waited && c.sheds.Load() {
		return c
	}
	c.probes--
	return nil
}

// onRefused records that the owner has refused a request, and lengthens the pause before the next
// probe. It returns the shardWait that the request must join. sheds sets shardWait.sheds.
func (b *shardBackoff) onRefused(shard int, sheds bool) *shardWait {
	b.mu.Lock()
	defer b.mu.Unlock()
	c := b.shards[shard]
	if c == nil {
		if b.shards == nil {
			b.shards = make(map[int]*shardWait)
		}
		c = &shardWait{b: b, shard: shard}
		c.timer = time.AfterFunc(firstPause, c.allowProbe)
		b.shards[shard] = c
		b.waitingShards.Add(1)
	}
	c.sheds.Store(sheds)
	c.probes = 0
	c.pause = min(max(2*c.pause, firstPause), lastPause)
	c.timer.Reset(c.pause)
	return c
}

// onAccepted records that the owner's app has accepted or finished a request for the shard.
func (b *shardBackoff) onAccepted(shard int) {
	if b.waitingShards.Load() == 0 {
		return
	}
	b.mu.Lock()
	c := b.shards[shard]
	if c != nil {
		c.pause = 0
	}
	b.mu.Unlock()
	if c != nil {
		c.allowProbe()
	}
}

// allowProbe permits one more request to be sent, and wakes the request that has waited longest. If
// no request waits, it removes the shardWait.
func (c *shardWait) allowProbe() {
	b := c.b
	b.mu.Lock()
	if c.over.Load() {
		b.mu.Unlock()
		return
	}
	if c.waiting == 0 {
		c.over.Store(true)
		c.timer.Stop()
		delete(b.shards, c.shard)
		b.waitingShards.Add(-1)
		b.mu.Unlock()
		return
	}
	c.probes++
	c.timer.Reset(lastPause) // a probe may end without a result; then the timer permits another one
	b.mu.Unlock()
	b.room.RouseOne(c)
}

// Ready reports whether a waiting request should try again now. It implements queue.Condition.
func (c *shardWait) Ready() bool {
	if c.over.Load() {
		return true
	}
	c.b.mu.Lock()
	defer c.b.mu.Unlock()
	return c.probes > 0
}

// count adds n, which is 1 or -1, to the number of waiting requests.
func (c *shardWait) count(n int) {
	c.b.mu.Lock()
	defer c.b.mu.Unlock()
	c.waiting += n
}

// waitBehind returns the decision for a request whose shard other requests are waiting for. If the
// owner sheds, a request that has not waited fails.
func (x *exchange) waitBehind(c *shardWait) decision {
	if !c.sheds.Load() {
		return decision{action: actionWait, reason: route.ReasonUnreachable, refusal: route.RefusedBusy, condition: c}
	}
	if !x.waited {
		return x.shardInflightFull()
	}
	return decision{action: actionWait, reason: route.ReasonUnreachable, refusal: route.RefusedBusy, condition: c, code: problem.ShardBusy, detail: detailShardInflight}
}

// shardInflightFull returns the final decision for a request that exceeds the in-flight limit of
// its shard.
func (x *exchange) shardInflightFull() decision {
	if x.mayHaveRun() && x.safety != safeMethod {
		return fail(brokenCode(x.route), detailMayHaveRun)
	}
	return fail(problem.ShardBusy, detailShardInflight)
}

// shedByOwner reports whether a request must wait again after another node has refused it because
// the shard has the maximum number of requests in progress. Only a request that has waited before
// does so: it has already waited for the requests that are in progress now.
func (x *exchange) shedByOwner(p *attempt) bool {
	return x.waited && !x.isResumption() && p.conn.res.Status() == http.StatusServiceUnavailable && isOwnerProblem(p, problem.ShardBusy)
}
