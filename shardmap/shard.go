package shardmap

import "github.com/cespare/xxhash/v2"

// MaxShards is the maximum number of shards of a map.
const MaxShards = 65536

// Shard is the number of a shard, with 0 ≤ s < m.Len().
type Shard uint32

// Epoch is the Raft log index of the entry that proposed a map. 0 stands for the initial map.
type Epoch uint64

// ShardOf returns the shard of key among the given number of shards: xxhash64(key) mod shards. The
// formula is part of the public API (`/v1/map` publishes it), so clients may compute it themselves.
// ShardOf panics unless shards > 0.
func ShardOf(key string, shards int) Shard {
	return Shard(xxhash.Sum64String(key) % uint64(shards))
}

// ShardOfBytes is like ShardOf, for a key in a byte slice. It does not modify or retain key.
func ShardOfBytes(key []byte, shards int) Shard {
	return Shard(xxhash.Sum64(key) % uint64(shards))
}
