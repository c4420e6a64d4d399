package shardkey

import (
	"crypto/rand"
	"encoding/hex"
)

// generatedKeyCap is the capacity that generateKey needs, for the key and for the random bytes.
const generatedKeyCap = generatedKeyLen + generatedKeyLen/2

// randomKey returns a new random key in dst, which must have a capacity of generatedKeyCap.
func randomKey(dst []byte) []byte {
	random := dst[generatedKeyLen:generatedKeyCap]
	_, _ = rand.Read(random) // never fails
	return hex.AppendEncode(dst[:0], random)
}

// maxGeneratedKeys is the maximum number of keys that are generated for one request. If half of the
// nodes are cordoned, one request in 65,536 still gets a key of a cordoned node.
const maxGeneratedKeys = 16

// Placement describes the shard of a new key.
type Placement uint8

const (
	// PlaceAvoided means that the owner accepts no new keys, or that the shard has no serving
	// owner.
	PlaceAvoided Placement = iota
	// PlaceElsewhere means that another node owns the shard and accepts new keys.
	PlaceElsewhere
	// PlaceHere means that this node owns the shard and accepts new keys.
	PlaceHere
)

// generateKey returns a new key whose shard belongs to a node that accepts new keys. It uses the
// first generated key if possible, so that keys are distributed like shards. Otherwise it prefers a
// shard of this node, which avoids forwarding. dst needs a capacity of generatedKeyCap.
func (x *Extractor) generateKey(dst []byte) []byte {
	key := randomKey(dst)
	if x.Place == nil || x.Place(key) != PlaceAvoided {
		return key
	}
	var elsewhere [generatedKeyLen]byte
	found := false
	for range maxGeneratedKeys - 1 {
		key = randomKey(dst)
		switch x.Place(key) {
		case PlaceHere:
			return key
		case PlaceElsewhere:
			if !found {
				found = true
				copy(elsewhere[:], key)
			}
		case PlaceAvoided:
		}
	}
	if found {
		copy(key, elsewhere[:])
	}
	return key
}
