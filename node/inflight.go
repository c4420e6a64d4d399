package node

import (
	"sync/atomic"

	"shardway/shardmap"
)

// inflight counts the requests that run on the local app, by shard. The hot path
// costs one atomic add to raise and one to lower, and allocates nothing.
type inflight struct {
	shards []shardCount
	// draining is set while somebody waits for counts to reach zero.
	draining atomic.Bool
	// zero gets a token when a count reached zero while draining.
	zero chan struct{}
}

type shardCount struct {
	n       atomic.Int32
	release func() // made once: a closure per request would be an allocation
}

func newInflight(shards int) *inflight {
	f := &inflight{shards: make([]shardCount, shards), zero: make(chan struct{}, 1)}
	for i := range f.shards {
		c := &f.shards[i]
		c.release = func() { f.lower(c) }
	}
	return f
}

// raise counts one more request for s and returns what ends it. The caller looks
// at table and lease only after raise: whoever stops the shard swaps the table
// first and reads the count then, so one of the two sees the other.
func (f *inflight) raise(s shardmap.Shard) (release func()) {
	c := &f.shards[s]
	c.n.Add(1)
	return c.release
}

func (f *inflight) lower(c *shardCount) {
	if c.n.Add(-1) != 0 || !f.draining.Load() {
		return
	}
	select {
	case f.zero <- struct{}{}:
	default:
	}
}

// await counts the requests for shards that may not run here. If there are any, zero
// gets a token when they may have ended.
func (f *inflight) await(mayRun func(shardmap.Shard) bool) int {
	f.draining.Store(true) // before it is counted: what ends after that is seen
	n := f.running(mayRun)
	if n == 0 {
		f.draining.Store(false)
	}
	return n
}

// awaitShard counts the requests for s. If there are any, zero gets a token when they
// may have ended.
func (f *inflight) awaitShard(s shardmap.Shard) int {
	n := int(f.shards[s].n.Load())
	if n == 0 {
		return 0
	}
	f.draining.Store(true)
	return int(f.shards[s].n.Load())
}

// of counts the requests for s.
func (f *inflight) of(s shardmap.Shard) int { return int(f.shards[s].n.Load()) }

// running counts the requests for shards that may not run here.
func (f *inflight) running(mayRun func(shardmap.Shard) bool) int {
	total := 0
	for i := range f.shards {
		if n := f.shards[i].n.Load(); n > 0 && !mayRun(shardmap.Shard(i)) {
			total += int(n)
		}
	}
	return total
}
