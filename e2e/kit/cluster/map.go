//go:build linux

package cluster

import (
	"shardway/e2e/kit/load"
)

// Map is what GET /v1/map answers: a committed shard map.
type Map struct {
	Epoch  uint64 `json:"epoch"`
	Shards int    `json:"shards"`
	Hash   string `json:"hash"`
	Nodes  []struct {
		ID   string `json:"id"`
		HTTP string `json:"http"`
	} `json:"nodes"`
	// Owners holds an index into Nodes for each shard, -1 for none.
	Owners []int `json:"owners"`
}

// Move is a shard with different owners in two maps.
type Move struct {
	Shard    int
	From, To string
}

// Owner is the owner of shard s, empty if it has none.
func (m Map) Owner(s int) string {
	if s >= len(m.Owners) || m.Owners[s] < 0 || m.Owners[s] >= len(m.Nodes) {
		return ""
	}
	return m.Nodes[m.Owners[s]].ID
}

// OwnerOf is the owner of a key's shard.
func (m Map) OwnerOf(key string) string { return m.Owner(load.ShardOf(key, m.Shards)) }

// Counts are the numbers of shards per owner; orphans count under "".
func (m Map) Counts() map[string]int {
	counts := make(map[string]int)
	for s := range m.Shards {
		counts[m.Owner(s)]++
	}
	return counts
}

// Even tells whether the counts of the owners differ by one at most, and no
// shard is an orphan.
func (m Map) Even() bool {
	counts := m.Counts()
	least, most := m.Shards, 0
	for id, n := range counts {
		if id == "" {
			return false
		}
		least, most = min(least, n), max(most, n)
	}
	return most-least <= 1
}

// Moves lists the shards whose owner differs in to.
func (m Map) Moves(to Map) []Move {
	var moves []Move
	for s := range max(m.Shards, to.Shards) {
		if a, b := m.Owner(s), to.Owner(s); a != b {
			moves = append(moves, Move{s, a, b})
		}
	}
	return moves
}

// Keys finds n keys for each shard that node owns.
func (m Map) Keys(node string, n int) []string {
	return load.KeysIn(m.Shards, n, func(s int) bool { return m.Owner(s) == node })
}
