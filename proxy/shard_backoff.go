package proxy

import (
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"shardway/internal/problem"
)

// detailShardInflight is what is said of a request too many of its shard.
const detailShardInflight = "as many requests of the shard are under way as there may be (--max-shard-inflight)"

// shardBackoff is what a pool knows of shards whose owner has said that all connections to its
// app are in use, or the shard's share of them, or that as many of its requests are under way
// as may be. Their requests wait in the Room, in line: one asks after 10 ms, doubling to
// 200 ms, and each that the app took, or is done with, lets one more ask. So as many are under
// way as the owner takes, and thousands that asked each for itself do not keep two machines
// busy with refusals.
type shardBackoff struct {
	room          rooms
	waitingShards atomic.Int32 // shards in crowds: zero, as nearly always, costs a load

	mu     sync.Mutex
	shards map[int]*shardWait
}

// shardWait is who waits for one shard. It is over once nobody does.
type shardWait struct {
	b     *shardBackoff
	shard int
	over  atomic.Bool // set with mu held
	// sheds: the owner refuses for good what has not waited for the shard.
	sheds atomic.Bool

	waiting int // with b.mu held, as all below
	probes  int // to ask, that nobody has taken
	pause   time.Duration
	timer   *time.Timer
}

var _ waitable = (*shardWait)(nil)

// allow takes a turn to ask for the shard; nil means that there is one, or that nobody
// waits for it. Who has not waited takes none of a crowd that sheds.
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

// onRefused notes that the owner was busy, or sheds, and returns whom to wait with.
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

// onAccepted notes that the owner's app took a request for the shard, or is done with one.
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

// allowProbe lets one more ask: the one that has waited longest.
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
	c.timer.Reset(lastPause) // should nothing come of it
	b.mu.Unlock()
	b.room.RouseOne(c)
}

// Ready reports whether it is worth a request's while to come again.
func (c *shardWait) Ready() bool {
	if c.over.Load() {
		return true
	}
	c.b.mu.Lock()
	defer c.b.mu.Unlock()
	return c.probes > 0
}

// count counts who waits, by 1 or -1.
func (c *shardWait) count(n int) {
	c.b.mu.Lock()
	defer c.b.mu.Unlock()
	c.waiting += n
}

// waitBehind is the verdict of a request that finds others waiting for the owner of its shard.
func (x *exchange) waitBehind(c *shardWait) decision {
	if !c.sheds.Load() {
		return decision{action: actionWait, reason: ReasonUnreachable, refusal: RefusedBusy, condition: c}
	}
	if !x.waited {
		return x.shardInflightFull()
	}
	return decision{action: actionWait, reason: ReasonUnreachable, refusal: RefusedBusy, condition: c, code: problem.ShardBusy, detail: detailShardInflight}
}

// shardInflightFull is the verdict of a request that is one too many of its shard, for good.
func (x *exchange) shardInflightFull() decision {
	if x.mayHaveRun() && x.safety != safeMethod {
		return fail(brokenCode(x.route), detailMayHaveRun)
	}
	return fail(problem.ShardBusy, detailShardInflight)
}

// shedByOwner reports whether another node has refused the request because as many of its
// shard are under way as may be. One that has waited for the shard waits on: those that
// waited with it are the others.
func (x *exchange) shedByOwner(p *attempt) bool {
	return x.waited && !x.isResumption() && p.conn.res.Status() == http.StatusServiceUnavailable && saysAtOwner(p, problem.ShardBusy)
}
