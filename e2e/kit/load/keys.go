//go:build linux

package load

import (
	"fmt"

	"github.com/cespare/xxhash/v2"
)

// ShardOf is the published hash: any client can route by itself.
func ShardOf(key string, shards int) int {
	return int(xxhash.Sum64String(key) % uint64(shards))
}

// Keys makes n keys.
func Keys(n int) []string {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = fmt.Sprintf("key-%d", i)
	}
	return keys
}

// KeysIn finds a key for each of the wanted shards, n for each.
func KeysIn(shards, n int, wanted func(shard int) bool) []string {
	return FreshKeysIn("key", shards, n, wanted)
}

// FreshKeysIn is KeysIn with keys that begin with a prefix.
func FreshKeysIn(prefix string, shards, n int, wanted func(shard int) bool) []string {
	left := make(map[int]int)
	for s := range shards {
		if wanted(s) {
			left[s] = n
		}
	}
	var keys []string
	for i := 0; len(left) > 0; i++ {
		key := fmt.Sprintf("%s-%d", prefix, i)
		s := ShardOf(key, shards)
		if left[s] == 0 {
			continue
		}
		keys = append(keys, key)
		if left[s]--; left[s] == 0 {
			delete(left, s)
		}
	}
	return keys
}
