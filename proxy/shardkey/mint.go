package shardkey

import (
	"crypto/rand"
	"encoding/hex"
)

// mintRoom is the capacity that mint needs, for the key and for the random bytes.
const mintRoom = mintedLen + mintedLen/2

// randomKey returns a new random key in dst, which must have a capacity of mintRoom.
func randomKey(dst []byte) []byte {
	random := dst[mintedLen:mintRoom]
	_, _ = rand.Read(random) // never fails
	return hex.AppendEncode(dst[:0], random)
}

// mintDraws is the maximum number of keys that are drawn for one request. With half of the nodes
// cordoned, one request in 65,536 gets a key of a cordoned node.
const mintDraws = 16

// Placement is whether a new key may belong to a shard.
type Placement uint8

const (
	// PlaceAvoided means that the owner takes no new keys, or that there is no serving owner.
	PlaceAvoided Placement = iota
	// PlaceElsewhere means that another node owns the shard and takes new keys.
	PlaceElsewhere
	// PlaceHere means that this node owns the shard and takes new keys.
	PlaceHere
)

// mint returns a new key whose shard belongs to a node that takes new keys. It takes the first drawn
// key if possible, so that keys are distributed like shards. Otherwise it prefers a shard of this
// node, which saves a hop. dst needs a capacity of mintRoom.
func (x *Extractor) mint(dst []byte) []byte {
	key := randomKey(dst)
	if x.Place == nil || x.Place(key) != PlaceAvoided {
		return key
	}
	var elsewhere [mintedLen]byte
	found := false
	for range mintDraws - 1 {
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
