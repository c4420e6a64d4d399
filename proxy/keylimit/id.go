package keylimit

import (
	"hash/maphash"
	"math/bits"
)

// ID identifies a key. Two keys have the same ID only with a negligible probability, and a client
// cannot find such keys, because the seeds of the Hasher are secret. Keys with the same ID share their limits.
type ID [2]uint64

// In returns the ID of the key within a scope, such as a route with limits of its own. Scope zero returns
// the same ID.
func (id ID) In(scope uint64) ID {
	return ID{id[0] ^ scope, id[1] ^ bits.RotateLeft64(scope, 32)}
}

// Hasher computes IDs with random seeds. NewHasher creates it.
type Hasher struct{ seeds [2]maphash.Seed }

// NewHasher returns a Hasher with new random seeds.
func NewHasher() Hasher {
	return Hasher{seeds: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}}
}

// ID returns the ID of a key.
func (h Hasher) ID(key []byte) ID {
	return ID{maphash.Bytes(h.seeds[0], key), maphash.Bytes(h.seeds[1], key)}
}
