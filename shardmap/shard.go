package shardmap

import "github.com/cespare/xxhash/v2"

// MaxShards is the largest number of shards a map can have.
const MaxShards = 65536

// Shard is the number of a shard: 0 ≤ s < m.Len().
type Shard uint32

// Epoch is the log index of the entry that proposed a map. 0 is before the first.
type Epoch uint64

// Of returns the shard of key among n shards: xxhash64(key) mod n. This is a
// public promise (`/v1/map` publishes it), so clients may compute it themselves.
// It panics unless n > 0.
func Of(key string, n int) Shard {
	return Shard(xxhash.Sum64String(key) % uint64(n))
}

// OfBytes is Of for a key held in a byte slice, which is only read.
func OfBytes(key []byte, n int) Shard {
	return Shard(xxhash.Sum64(key) % uint64(n))
}
