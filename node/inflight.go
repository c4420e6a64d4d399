package node

import (
	"sync/atomic"

	"shardway/shardmap"
)

// inflight counts the requests that run at the local app, by shard. Its methods may be called from any
// goroutine. A request costs one atomic addition at its start and one at its end, and no allocation.
type inflight struct {
	shards []shardCount
	// draining is set while the agent waits for counts to reach zero.
	draining atomic.Bool
	// zero gets a token when a count reached zero while draining.
	zero chan struct{}
}

// shardCount is the number of requests of one shard.
type shardCount struct {
	n       atomic.Int32
	release func() // created once, because a closure per request would be an allocation
}

// newInflight returns counts of zero for the given number of shards.
func newInflight(shards int) *inflight {
	f := &inflight{shards: make([]shardCount, shards), zero: make(chan struct{}, 1)}
	for i := range f.shards {
		c := &f.shards[i]
		c.release = func() { f.lower(c) }
	}
	return f
}

// raise counts one more request for s. The caller must call release when the request has ended. The
// caller must read the routing table and the lease after raise. The agent stops a shard in the opposite
// order: it replaces the table and then reads the count. So at least one of the two sees the other.
func (f *inflight) raise(s shardmap.Shard) (release func()) {
	c := &f.shards[s]
	c.n.Add(1)
	return c.release
}

// lower counts one request less, and notifies zero if that is needed.
func (f *inflight) lower(c *shardCount) {
	if c.n.Add(-1) != 0 || !f.draining.Load() {
		return
	}
	select {
	case f.zero <- struct{}{}:
	default:
	}
}

// countUnowned counts the requests for shards for which mayRun returns false. If there are any, zero
// gets a token when they may have ended.
func (f *inflight) countUnowned(mayRun func(shardmap.Shard) bool) int {
	f.draining.Store(true) // before counting, so that the end of a counted request is noticed
	n := f.running(mayRun)
	if n == 0 {
		f.draining.Store(false)
	}
	return n
}

// countShard counts the requests for s. If there are any, zero gets a token when they may have ended.
func (f *inflight) countShard(s shardmap.Shard) int {
	n := int(f.shards[s].n.Load())
	if n == 0 {
		return 0
	}
	f.draining.Store(true)
	return int(f.shards[s].n.Load())
}

// of counts the requests for s.
func (f *inflight) of(s shardmap.Shard) int { return int(f.shards[s].n.Load()) }

// running counts the requests for shards for which mayRun returns false. It does not affect zero.
func (f *inflight) running(mayRun func(shardmap.Shard) bool) int {
	total := 0
	for i := range f.shards {
		if n := f.shards[i].n.Load(); n > 0 && !mayRun(shardmap.Shard(i)) {
			total += int(n)
		}
	}
	return total
}
