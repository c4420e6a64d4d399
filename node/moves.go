package node

import (
	"sync"

	"shardway/ack"
	"shardway/admin"
	"shardway/shardmap"
)

// movesKept is how many moves a node remembers: four times those of a cluster's first
// map.
const movesKept = 4096

// reasonSnapshot stands for the reasons of moves that a snapshot has skipped.
const reasonSnapshot = "snapshot"

// moves remembers which shards went where, and why, out of the maps that this node has
// seen committed: those that its log replays after a start, and all since. One goroutine
// notes, any may read.
type moves struct {
	mu   sync.Mutex
	ring []admin.Move // ascending by epoch from next on, once it is full
	next int          // where the next one goes; with ring full
}

// committed notes what the commit of is has moved, was being the state before.
func (m *moves) committed(was, is *ack.State, reason string) {
	if was.Committed().Epoch() == is.Committed().Epoch() || was.Committed().Len() != is.Committed().Len() {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, d := range shardmap.Diff(was.Committed(), is.Committed()) {
		m.note(admin.Move{
			Epoch: uint64(is.Committed().Epoch()), Shard: uint32(d.Shard), From: string(d.From), To: string(d.To), Reason: reason,
		})
	}
}

// note keeps one more, with mu held.
func (m *moves) note(x admin.Move) {
	if len(m.ring) < movesKept {
		m.ring = append(m.ring, x)
		return
	}
	m.ring[m.next] = x
	m.next = (m.next + 1) % movesKept
}

// of returns those of a shard, the oldest first.
func (m *moves) of(shard uint32) []admin.Move {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := []admin.Move{}
	for i := range m.ring {
		if x := m.ring[(m.next+i)%len(m.ring)]; x.Shard == shard {
			out = append(out, x)
		}
	}
	return out
}

var _ admin.ShardHistoryAPI = (*Node)(nil)

// Moves returns what this node remembers of how the shard came to its owner.
func (n *Node) Moves(shard uint32) []admin.Move { return n.fsm.moves.of(shard) }
