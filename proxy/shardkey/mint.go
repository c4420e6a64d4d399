package shardkey

import (
	"crypto/rand"
	"encoding/hex"
)

// mintRoom is the memory that mint needs: for the key, and what it is made of.
const mintRoom = mintedLen + mintedLen/2

// mint makes a key that nobody has, in memory of that much room.
func mint(dst []byte) []byte {
	random := dst[mintedLen:mintRoom]
	_, _ = rand.Read(random) // never fails
	return hex.AppendEncode(dst[:0], random)
}

// mintDraws is how many keys are drawn at most for one request. With half of the nodes
// cordoned, one request in 65,536 gets a key of a cordoned node.
const mintDraws = 16

// Placement reports whether a new key may belong to a shard.
type Placement uint8

const (
	PlaceAvoided Placement = iota // its owner gets no new keys, or it has none that serves
	PlaceElsewhere
	PlaceHere
)

// mint makes a key that no request has had, whose shard belongs to a node that takes new keys.
// The first key that is drawn counts if it may, so keys are spread as shards are. If it may
// not, a shard of this node is preferred to one of another node: that saves a hop. dst needs
// mintRoom bytes.
func (f *Extractor) mint(dst []byte) []byte {
	key := mint(dst)
	if f.Place == nil || f.Place(key) != PlaceAvoided {
		return key
	}
	var elsewhere [mintedLen]byte
	found := false
	for range mintDraws - 1 {
		key = mint(dst)
		switch f.Place(key) {
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
