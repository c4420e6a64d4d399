package node

import (
	"sync/atomic"
	"time"

	"shardway/shardmap"
)

// appHolds contains the shards of this node that the app holds: it has reported, with the Shardway-Hold
// header of a response, that the shard has state which cannot move now. A held shard does not count as
// idle, so it does not move in the first stage of a planned map change, which moves idle shards. Holds
// have no other effect: in the next stage the shard moves, and a takeover after a crash ignores holds.
// Any goroutine may call the methods.
type appHolds struct{ shards []atomic.Pointer[appHold] }

// appHold is the hold of one shard. It is immutable.
type appHold struct {
	epoch uint64        // the ownership epoch in which the hold is valid
	until time.Duration // time of the node's clock at which the hold ends; zero means no hold
}

// newAppHolds returns an empty appHolds. shards is the number of shards of the cluster.
func newAppHolds(shards int) *appHolds {
	return &appHolds{make([]atomic.Pointer[appHold], shards)}
}

// set replaces the hold of a shard in an ownership epoch. It has no effect if the shard has a hold of a
// later epoch: a late response from an earlier ownership must not end that hold.
func (h *appHolds) set(s shardmap.Shard, epoch uint64, until time.Duration) {
	x, hold := &h.shards[s], &appHold{epoch, until}
	for {
		old := x.Load()
		if old != nil && old.epoch > epoch || x.CompareAndSwap(old, hold) {
			return
		}
	}
}

// holds reports whether the app holds a shard at time now, in an ownership epoch. A hold ends together
// with the ownership epoch in which the app has reported it.
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

// count returns the number of held shards that a node owns in the map m.
func (h *appHolds) count(m *shardmap.Map, node shardmap.NodeID, now time.Duration) int {
	n := 0
	for s := range m.Shards(node) {
		if h.holds(s, uint64(m.OwnedSince(s)), now) {
			n++
		}
	}
	return n
}

// holdShard records that the app holds a shard for the duration d; zero ends the hold. It is the HoldShard
// function of proxy.Options.
func (n *Node) holdShard(s shardmap.Shard, epoch uint64, d time.Duration) {
	until := time.Duration(0)
	if d > 0 {
		until = n.o.Clock.Now() + d
	}
	n.holds.set(s, epoch, until)
}

// heldShards returns the number of this node's shards that are held.
func (n *Node) heldShards() int {
	return n.holds.count(n.router.State().Committed(), n.self, n.o.Clock.Now())
}

// busy returns a function that counts the reasons why a shard of m is not idle: each running request or
// WebSocket counts one, and a hold counts one. A shard that is busy only because of a hold does not delay
// the acknowledgement of a proposal.
func (n *Node) busy(m *shardmap.Map) func(shardmap.Shard) int {
	now := n.o.Clock.Now()
	return func(s shardmap.Shard) int {
		count := n.router.InFlight.Of(s)
		if n.holds.holds(s, uint64(m.OwnedSince(s)), now) {
			count++
		}
		return count
	}
}
