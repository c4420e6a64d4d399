package eventlog

import (
	"sync"

	"shardway/ack"
	"shardway/admin/api"
	"shardway/shardmap"
)

// maxShardMoves is how many moves a node keeps: four times those of the first map of a cluster.
const maxShardMoves = 4096

// ReasonSnapshot is the reason of moves that are only known from a snapshot.
const ReasonSnapshot = "snapshot"

// ShardMoves records which shards moved between nodes, and why. It compares the committed maps that this
// node observes: the maps in its log, which it replays after a start, and all later ones. One goroutine
// records, any goroutine may read. The zero value is ready for use.
type ShardMoves struct {
	// mu protects the following fields.
	mu   sync.Mutex
	ring []api.Move // ascending by epoch, from index next on if it is full
	next int        // index of the next move in a full ring
}

// Record records the shard moves between the states was and is, of which is was just committed. The map of is
// may have further shards, of a new service.
func (m *ShardMoves) Record(was, is *ack.State, reason string) {
	if was.Committed().Epoch() == is.Committed().Epoch() || !was.Bootstrapped() {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	numbers := instanceNumbers{was.Committed().HasInstances() || is.Committed().HasInstances()}
	for _, d := range shardmap.Diff(was.Committed(), is.Committed()) {
		m.addLocked(api.Move{
			Epoch: uint64(is.Committed().Epoch()), Shard: uint32(d.Shard), From: string(d.From), To: string(d.To), Reason: reason,
			FromInstance: numbers.from(d), ToInstance: numbers.to(d),
		})
	}
}

// addLocked adds a move and drops the oldest one if the ring is full. mu must be held.
func (m *ShardMoves) addLocked(x api.Move) {
	if len(m.ring) < maxShardMoves {
		m.ring = append(m.ring, x)
		return
	}
	m.ring[m.next] = x
	m.next = (m.next + 1) % maxShardMoves
}

// Of returns the moves of a shard, oldest first. The result is not nil.
func (m *ShardMoves) Of(shard uint32) []api.Move {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := []api.Move{}
	for i := range m.ring {
		if x := m.ring[(m.next+i)%len(m.ring)]; x.Shard == shard {
			out = append(out, x)
		}
	}
	return out
}
