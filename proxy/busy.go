package proxy

import (
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"shardway/internal/problem"
)

// crowdedThere is what is said of a request too many of its shard.
const crowdedThere = "as many requests of the shard are under way as there may be (--max-shard-inflight)"

// busy is what a pool knows of shards whose owner has said that all connections to its
// app are in use, or the shard's share of them, or that as many of its requests are under way
// as may be. Their requests wait in the Room, in line: one asks after 10 ms, doubling to
// 200 ms, and each that the app took, or is done with, lets one more ask. So as many are under
// way as the owner takes, and thousands that asked each for itself do not keep two machines
// busy with refusals.
type busy struct {
	room rooms
	any  atomic.Int32 // shards in crowds: zero, as nearly always, costs a load

	mu     sync.Mutex
	crowds map[int]*crowd
}

// crowd is who waits for one shard. It is over once nobody does.
type crowd struct {
	b     *busy
	shard int
	over  atomic.Bool // set with mu held
	// sheds: the owner refuses for good what has not waited for the shard.
	sheds atomic.Bool

	waiting int // with b.mu held, as all below
	turns   int // to ask, that nobody has taken
	pause   time.Duration
	timer   *time.Timer
}

var _ door = (*crowd)(nil)

// pass takes a turn to ask for the shard; nil means that there is one, or that nobody
// waits for it. Who has not waited takes none of a crowd that sheds.
func (b *busy) pass(shard int, waited bool) *crowd {
	if b.any.Load() == 0 {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	c := b.crowds[shard]
	if c == nil || c.turns == 0 || !waited && c.sheds.Load() {
		return c
	}
	c.turns--
	return nil
}

// refused notes that the owner was busy, or sheds, and returns whom to wait with.
func (b *busy) refused(shard int, sheds bool) *crowd {
	b.mu.Lock()
	defer b.mu.Unlock()
	c := b.crowds[shard]
	if c == nil {
		if b.crowds == nil {
			b.crowds = make(map[int]*crowd)
		}
		c = &crowd{b: b, shard: shard}
		c.timer = time.AfterFunc(firstPause, c.turnComes)
		b.crowds[shard] = c
		b.any.Add(1)
	}
	c.sheds.Store(sheds)
	c.turns = 0
	c.pause = min(max(2*c.pause, firstPause), lastPause)
	c.timer.Reset(c.pause)
	return c
}

// took notes that the owner's app took a request for the shard, or is done with one.
func (b *busy) took(shard int) {
	if b.any.Load() == 0 {
		return
	}
	b.mu.Lock()
	c := b.crowds[shard]
	if c != nil {
		c.pause = 0
	}
	b.mu.Unlock()
	if c != nil {
		c.turnComes()
	}
}

// turnComes lets one more ask: the one that has waited longest.
func (c *crowd) turnComes() {
	b := c.b
	b.mu.Lock()
	if c.over.Load() {
		b.mu.Unlock()
		return
	}
	if c.waiting == 0 {
		c.over.Store(true)
		c.timer.Stop()
		delete(b.crowds, c.shard)
		b.any.Add(-1)
		b.mu.Unlock()
		return
	}
	c.turns++
	c.timer.Reset(lastPause) // should nothing come of it
	b.mu.Unlock()
	b.room.RouseOne(c)
}

// Ready reports whether it is worth a request's while to come again.
func (c *crowd) Ready() bool {
	if c.over.Load() {
		return true
	}
	c.b.mu.Lock()
	defer c.b.mu.Unlock()
	return c.turns > 0
}

// count counts who waits, by 1 or -1.
func (c *crowd) count(n int) {
	c.b.mu.Lock()
	defer c.b.mu.Unlock()
	c.waiting += n
}

// behind is the verdict of a request that finds others waiting for the owner of its shard.
func (x *exchange) behind(c *crowd) verdict {
	if !c.sheds.Load() {
		return verdict{step: stepHold, reason: ReasonUnreachable, refusal: RefusedBusy, gate: c}
	}
	if !x.waited {
		return x.crowded()
	}
	return verdict{step: stepHold, reason: ReasonUnreachable, refusal: RefusedBusy, gate: c, code: problem.ShardBusy, detail: crowdedThere}
}

// crowded is the verdict of a request that is one too many of its shard, for good.
func (x *exchange) crowded() verdict {
	if x.mayHaveRun() && x.safety != safeMethod {
		return fail(brokenCode(x.route), mayHaveRun)
	}
	return fail(problem.ShardBusy, crowdedThere)
}

// shedThere reports whether another node has refused the request because as many of its
// shard are under way as may be. One that has waited for the shard waits on: those that
// waited with it are the others.
func (x *exchange) shedThere(p *trip) bool {
	return x.waited && !x.later() && p.l.res.Status() == http.StatusServiceUnavailable && saysThere(p, problem.ShardBusy)
}
