package router

import (
	"sync/atomic"
	"time"

	"shardway/ack"
	"shardway/shardmap"
)

// InFlight counts the requests that run at the local app, by shard. Its methods may be called from any
// goroutine. A request costs one atomic addition at its start and one at its end, and no allocation.
type InFlight struct {
	// chunks contain the counts of shardsPerChunk shards each. A chunk is created for its first request, because the
	// map gets longer with each service that is added.
	chunks [ack.MaxShards / shardsPerChunk]atomic.Pointer[shardCounts]
	// draining is set while the agent waits for counts to reach zero.
	draining atomic.Bool
	// OnFirstEnded is called when the first admitted request for a shard has ended since AwaitFirstEnd, with the
	// time that was passed to AwaitFirstEnd. It must not block, and may be nil.
	OnFirstEnded func(ownedSince time.Duration)
	// ReachedZero receives a token when a count has reached zero while draining.
	ReachedZero chan struct{}
}

// shardsPerChunk is the number of shards whose counts are created together.
const shardsPerChunk = 256

// shardCounts are the counts of consecutive shards.
type shardCounts [shardsPerChunk]shardCount

// shardCount is the number of requests of one shard.
type shardCount struct {
	count atomic.Int32
	// awaitsFirst is the argument of AwaitFirstEnd until a request has ended. It is zero if there is nothing to
	// report.
	awaitsFirst atomic.Int64
	release     func() // created once, because a closure per request would be an allocation
}

// NewInFlight returns counts of zero.
func NewInFlight() *InFlight { return &InFlight{ReachedZero: make(chan struct{}, 1)} }

// counter returns the count of a shard.
func (f *InFlight) counter(shard shardmap.Shard) *shardCount {
	counts := f.chunks[shard/shardsPerChunk].Load()
	if counts == nil {
		counts = f.addChunk(shard)
	}
	return &counts[shard%shardsPerChunk]
}

// addChunk creates the counts of the chunk of a shard, unless another goroutine has created them.
func (f *InFlight) addChunk(shard shardmap.Shard) *shardCounts {
	counts := new(shardCounts)
	for i := range counts {
		counter := &counts[i]
		counter.release = func() { f.endAdmitted(counter) }
	}
	chunk := &f.chunks[shard/shardsPerChunk]
	if !chunk.CompareAndSwap(nil, counts) {
		return chunk.Load()
	}
	return counts
}

// Begin counts one more request for the shard. The caller must call release when the request has ended. The caller
// must read the routing table and the lease after Begin. The agent stops a shard in the opposite order: it replaces
// the table and then reads the count. As a result, at least one of the two sees the other.
func (f *InFlight) Begin(shard shardmap.Shard) (release func()) {
	counter := f.counter(shard)
	counter.count.Add(1)
	return counter.release
}

// AwaitFirstEnd calls OnFirstEnded once, at the next end of an admitted request for shard. ownedSince is the clock
// time at which this node became the owner of the shard, or zero if it no longer owns the shard.
func (f *InFlight) AwaitFirstEnd(shard shardmap.Shard, ownedSince time.Duration) {
	f.counter(shard).awaitsFirst.Store(int64(ownedSince))
}

// endAdmitted counts one admitted request less.
func (f *InFlight) endAdmitted(counter *shardCount) {
	f.end(counter)
	if counter.awaitsFirst.Load() == 0 { // the load avoids a write by every request
		return
	}
	if ownedSince := counter.awaitsFirst.Swap(0); ownedSince != 0 && f.OnFirstEnded != nil {
		f.OnFirstEnded(time.Duration(ownedSince))
	}
}

// endRefused uncounts a request for shard that was not admitted.
func (f *InFlight) endRefused(shard shardmap.Shard) { f.end(f.counter(shard)) }

// end decrements the count, and notifies ReachedZero if that is needed.
func (f *InFlight) end(counter *shardCount) {
	if counter.count.Add(-1) != 0 || !f.draining.Load() {
		return
	}
	select {
	case f.ReachedZero <- struct{}{}:
	default:
	}
}

// CountUnowned counts the requests for shards for which mayRun returns false. If there are any, ReachedZero
// receives a token as soon as the count of one of these shards is zero. The caller then counts again.
func (f *InFlight) CountUnowned(mayRun func(shardmap.Shard) bool) int {
	f.draining.Store(true) // before counting, so that the end of a counted request is noticed
	count := f.CountExcept(mayRun)
	if count == 0 {
		f.draining.Store(false)
	}
	return count
}

// CountAndNotify counts the requests for shard, like Count. If there are any, ReachedZero receives a token when the last
// one has ended.
func (f *InFlight) CountAndNotify(shard shardmap.Shard) int {
	count := int(f.counter(shard).count.Load())
	if count == 0 {
		return 0
	}
	f.draining.Store(true)
	return int(f.counter(shard).count.Load()) // again, because a request that ended before Store has sent no token
}

// Count counts the requests for shard. It does not affect ReachedZero.
func (f *InFlight) Count(shard shardmap.Shard) int { return int(f.counter(shard).count.Load()) }

// Total counts all requests. It does not affect ReachedZero.
func (f *InFlight) Total() int {
	return f.CountExcept(func(shardmap.Shard) bool { return false })
}

// CountExcept counts the requests for shards for which mayRun returns false. It does not affect ReachedZero.
func (f *InFlight) CountExcept(mayRun func(shardmap.Shard) bool) int {
	total := 0
	for i := range f.chunks {
		counts := f.chunks[i].Load()
		if counts == nil {
			continue
		}
		for j := range counts {
			if count := counts[j].count.Load(); count > 0 && !mayRun(shardmap.Shard(i*shardsPerChunk+j)) {
				total += int(count)
			}
		}
	}
	return total
}
