package shardkey

import (
	"crypto/rand"
	"encoding/hex"
)

// generatedKeyCap is the capacity that stickyCookieKey and mintKey need, for the key and for the random bytes.
const generatedKeyCap = generatedKeyLen + generatedKeyLen/2

// randomKey returns a new random key in dst, which must have a capacity of generatedKeyCap.
func randomKey(dst []byte) []byte {
	random := dst[generatedKeyLen:generatedKeyCap]
	_, _ = rand.Read(random) // never fails
	return hex.AppendEncode(dst[:0], random)
}

// maxGeneratedKeys is the maximum number of keys that are generated for one request. Even if half of the nodes are
// cordoned, only one request in 2^64 gets a key of a cordoned node. If a node owns one shard in ten, one minted key
// in 850 belongs to another node.
const maxGeneratedKeys = 64

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

// PlaceFunc returns the placement of a new key of a service. service is Extractor.Service.
type PlaceFunc func(service string, key []byte) Placement

// place returns the placement of a new key of the request's service. Place must not be nil.
func (e *Extractor) place(key []byte) Placement { return e.Place(e.rules.service, key) }

// stickyCookieKey returns a new key whose shard belongs to a node that accepts new keys. It uses the first
// generated key if possible, so that keys are distributed like shards no matter where clients connect. Otherwise it
// prefers a shard of this node. dst needs a capacity of generatedKeyCap.
func (e *Extractor) stickyCookieKey(dst []byte) []byte {
	key := randomKey(dst)
	if e.Place == nil || e.place(key) != PlaceAvoided {
		return key
	}
	return e.mintKey(dst)
}

// mintKey returns a new key whose shard belongs to this node, which avoids forwarding. If this node
// owns no shard or accepts no new keys, the shard belongs to another node that accepts new keys. dst
// needs a capacity of generatedKeyCap.
func (e *Extractor) mintKey(dst []byte) []byte {
	if e.Place == nil {
		return randomKey(dst)
	}
	var key []byte
	var elsewhere [generatedKeyLen]byte
	found := false
	for range maxGeneratedKeys {
		key = randomKey(dst)
		switch e.place(key) {
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
