//go:build linux

package cluster

import (
	"strconv"

	"shardway/e2e/kit/history"
	"shardway/e2e/kit/load"
)

// Map is the response of GET /v1/map: a committed shard map.
type Map struct {
	Epoch  uint64 `json:"epoch"`
	Shards int    `json:"shards"`
	Hash   string `json:"hash"`
	Nodes  []struct {
		ID   string `json:"id"`
		HTTP string `json:"http"`
	} `json:"nodes"`
	// Owners contains an index into Nodes for each shard; -1 means no owner.
	Owners []int `json:"owners"`
	// Instances contains the number of the owner's app instance for each shard. It is nil while each
	// node uses only its first instance.
	Instances []int `json:"instances"`

	services []history.Service // nil means one service
}

// Move is a shard with different owners in two maps.
type Move struct {
	Shard    int
	From, To string
}

// Owner returns the ID of the owner of a shard. Empty means that the shard is orphaned.
func (m Map) Owner(shard int) string {
	if shard >= len(m.Owners) || m.Owners[shard] < 0 || m.Owners[shard] >= len(m.Nodes) {
		return ""
	}
	return m.Nodes[m.Owners[shard]].ID
}

// App returns the name of the app instance that owns a shard: the ID of its node, or NODE/INSTANCE from
// the second instance on. Empty means that the shard is orphaned.
func (m Map) App(shard int) string {
	owner := m.Owner(shard)
	if owner == "" || shard >= len(m.Instances) || m.Instances[shard] <= 1 {
		return owner
	}
	return owner + "/" + strconv.Itoa(m.Instances[shard])
}

// OwnerOf returns the owner of the shard of a key.
func (m Map) OwnerOf(key string) string { return m.Owner(m.ShardOf(key)) }

// ShardOf returns the shard of a key.
func (m Map) ShardOf(key string) int { return int(history.ShardOf(key, m.Shards, m.services)) }

// Counts returns the number of shards by owner. The number of orphaned shards has the key "".
func (m Map) Counts() map[string]int {
	counts := make(map[string]int)
	for shard := range m.Shards {
		counts[m.Owner(shard)]++
	}
	return counts
}

// IsBalanced reports whether the counts of the owners differ by at most one, and no shard is
// orphaned.
func (m Map) IsBalanced() bool {
	counts := m.Counts()
	fewest, largest := m.Shards, 0
	for id, count := range counts {
		if id == "" {
			return false
		}
		fewest, largest = min(fewest, count), max(largest, count)
	}
	return largest-fewest <= 1
}

// Moves returns the shards that have another owner in the map next.
func (m Map) Moves(next Map) []Move {
	var moves []Move
	for shard := range max(m.Shards, next.Shards) {
		if from, to := m.Owner(shard), next.Owner(shard); from != to {
			moves = append(moves, Move{shard, from, to})
		}
	}
	return moves
}

// Keys returns n keys for each shard that node owns.
func (m Map) Keys(node string, n int) []string {
	isWanted := func(shard int) bool { return m.Owner(shard) == node }
	if m.services != nil {
		return serviceKeys(m.services, "key", n, isWanted)
	}
	return load.KeysIn(m.Shards, n, isWanted)
}
