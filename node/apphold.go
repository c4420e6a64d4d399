package node

import (
	"sync/atomic"
	"time"

	"shardway/shardmap"
)

// appHolds are the shards of this node whose app keeps state that cannot move, by the
// Shardway-Hold of its responses. A held shard is not idle, so the part of a planned move that
// moves idle shards first leaves it where it is. Nothing else waits for a hold: at the end of
// that part a held shard moves, and a takeover after a crash ignores holds. Any goroutine may
// call the methods.
type appHolds struct{ shards []atomic.Pointer[appHold] }

// appHold never changes.
type appHold struct {
	epoch uint64        // of ownership, for which the hold counts
	until time.Duration // by the node's clock; zero: no hold
}

func newAppHolds(shards int) *appHolds {
	return &appHolds{make([]atomic.Pointer[appHold], shards)}
}

// set replaces the hold of a shard under an ownership epoch. It ignores a response of an
// earlier ownership than that of the hold: such a response must not end the hold.
func (h *appHolds) set(s shardmap.Shard, epoch uint64, until time.Duration) {
	x, hold := &h.shards[s], &appHold{epoch, until}
	for {
		old := x.Load()
		if old != nil && old.epoch > epoch || x.CompareAndSwap(old, hold) {
			return
		}
	}
}

// holds reports whether a shard is held under an ownership epoch. A hold of an earlier
// ownership has ended with it.
func (h *appHolds) holds(s shardmap.Shard, epoch uint64, now time.Duration) bool {
	x := h.shards[s].Load()
	return x != nil && now < x.until && x.epoch == epoch
}

// clear ends all holds.
func (h *appHolds) clear() {
	for i := range h.shards {
		h.shards[i].Store(nil)
	}
}

// count returns the number of shards that a node owns by m and that are held.
func (h *appHolds) count(m *shardmap.Map, node shardmap.NodeID, now time.Duration) int {
	n := 0
	for s := range m.Shards(node) {
		if h.holds(s, uint64(m.OwnedSince(s)), now) {
			n++
		}
	}
	return n
}

// holdShard takes what the app reports about a shard: see proxy.Options.
func (n *Node) holdShard(s shardmap.Shard, epoch uint64, d time.Duration) {
	until := time.Duration(0)
	if d > 0 {
		until = n.o.Clock.Now() + d
	}
	n.holds.set(s, epoch, until)
}

// heldShards returns the number of this node's shards that are held.
func (n *Node) heldShards() int {
	return n.holds.count(n.router.state.Load().Committed(), n.self, n.o.Clock.Now())
}

// busy counts what keeps a shard of m from being idle: requests and sockets that run, and one
// for a hold. A request that is counted only here delays no acknowledgement.
func (n *Node) busy(m *shardmap.Map) func(shardmap.Shard) int {
	now := n.o.Clock.Now()
	return func(s shardmap.Shard) int {
		count := n.router.running.of(s)
		if n.holds.holds(s, uint64(m.OwnedSince(s)), now) {
			count++
		}
		return count
	}
}
