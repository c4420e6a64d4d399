//go:build linux

package load

import (
	"fmt"

	"github.com/cespare/xxhash/v2"
)

// ShardOf returns the shard of a key by the published hash, so any client can route
// requests.
func ShardOf(key string, shards int) int {
	return int(xxhash.Sum64String(key) % uint64(shards))
}

// Keys returns n keys.
func Keys(n int) []string {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = fmt.Sprintf("key-%d", i)
	}
	return keys
}

// KeysIn returns n keys for each wanted shard.
func KeysIn(shards, n int, isWanted func(shard int) bool) []string {
	return KeysWithPrefixIn("key", shards, n, isWanted)
}

// KeysWithPrefixIn is KeysIn with another prefix of the keys.
func KeysWithPrefixIn(prefix string, shards, count int, isWanted func(shard int) bool) []string {
	missing := make(map[int]int)
	for shard := range shards {
		if isWanted(shard) {
			missing[shard] = count
		}
	}
	var keys []string
	for i := 0; len(missing) > 0; i++ {
		key := fmt.Sprintf("%s-%d", prefix, i)
		shard := ShardOf(key, shards)
		if missing[shard] == 0 {
			continue
		}
		keys = append(keys, key)
		if missing[shard]--; missing[shard] == 0 {
			delete(missing, shard)
		}
	}
	return keys
}
