package idleshards

import (
	"sync/atomic"
	"time"

	"shardway/ack"
	"shardway/shardmap"
)

// Holds contains the shards of this node that the app holds: it has reported, with the Shardway-Hold
// header of a response, that the shard has state which cannot move now. A held shard does not count as
// idle, so it does not move in the first stage of a planned map change, which moves idle shards. Holds
// have no other effect: in the next stage the shard moves, and a takeover after a crash ignores holds.
// Any goroutine may call the methods.
type Holds struct {
	// chunks contain the holds of shardsPerChunk shards each. A chunk is created for its first hold.
	chunks [ack.MaxShards / shardsPerChunk]atomic.Pointer[shardHolds]
}

// shardsPerChunk is the number of shards whose holds are created together.
const shardsPerChunk = 256

// shardHolds are the holds of consecutive shards.
type shardHolds [shardsPerChunk]atomic.Pointer[hold]

// hold is the hold of one shard. It is immutable.
type hold struct {
	epoch uint64        // the ownership epoch in which the hold is valid
	until time.Duration // time of the node's clock at which the hold ends; zero means no hold
}

// NewHolds returns Holds without a held shard.
func NewHolds() *Holds { return &Holds{} }

// set replaces the hold of a shard in an ownership epoch. It has no effect if the shard has a hold of a
// later epoch: a late response from an earlier ownership must not end that hold.
func (h *Holds) set(s shardmap.Shard, epoch uint64, until time.Duration) {
	chunk := &h.chunks[s/shardsPerChunk]
	if chunk.Load() == nil {
		chunk.CompareAndSwap(nil, new(shardHolds))
	}
	current, next := &chunk.Load()[s%shardsPerChunk], &hold{epoch, until}
	for {
		old := current.Load()
		if old != nil && old.epoch > epoch || current.CompareAndSwap(old, next) {
			return
		}
	}
}

// has reports whether the app holds a shard at time now, in an ownership epoch. A hold ends together
// with the ownership epoch in which the app has reported it.
func (h *Holds) has(s shardmap.Shard, epoch uint64, now time.Duration) bool {
	holds := h.chunks[s/shardsPerChunk].Load()
	if holds == nil {
		return false
	}
	current := holds[s%shardsPerChunk].Load()
	return current != nil && now < current.until && current.epoch == epoch
}

// Clear ends all holds.
func (h *Holds) Clear() {
	for i := range h.chunks {
		h.chunks[i].Store(nil)
	}
}

// count returns the number of held shards that a node owns in the map m.
func (h *Holds) count(m *shardmap.Map, node shardmap.NodeID, now time.Duration) int {
	n := 0
	for s := range m.Shards(node) {
		if h.has(s, uint64(m.OwnedSince(s)), now) {
			n++
		}
	}
	return n
}
