package keylimit

import "hash/maphash"

// ID identifies a key. Two keys have the same ID only with a negligible probability, and nobody without
// the seeds of the Hasher can find such keys. Keys with the same ID share their limits.
type ID [2]uint64

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
