package proxy

import (
	"crypto/rand"
	"encoding/hex"

	"shardway/shardmap"
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

// placement reports whether a new key may belong to a shard.
type placement uint8

const (
	placeAvoided placement = iota // its owner gets no new keys, or it has none that serves
	placeElsewhere
	placeHere
)

// mint makes a key that no request has had, whose shard belongs to a node that takes new keys.
// The first key that is drawn counts if it may, so keys are spread as shards are. If it may
// not, a shard of this node is preferred to one of another node: that saves a hop. dst needs
// mintRoom bytes.
func (f *finder) mint(dst []byte) []byte {
	key := mint(dst)
	if f.place == nil || f.place(key) != placeAvoided {
		return key
	}
	var elsewhere [mintedLen]byte
	found := false
	for range mintDraws - 1 {
		key = mint(dst)
		switch f.place(key) {
		case placeHere:
			return key
		case placeElsewhere:
			if !found {
				found = true
				copy(elsewhere[:], key)
			}
		case placeAvoided:
		}
	}
	if found {
		copy(key, elsewhere[:])
	}
	return key
}

// placeKey returns whether a new key may belong to the shard that it would have.
func (s *Server) placeKey(key []byte) placement {
	t := s.o.Cluster.Table()
	if t.Shards() == 0 || s.o.AcceptsNewKeys == nil {
		return placeElsewhere
	}
	switch r := t.Route(shardmap.OfBytes(key, t.Shards())); {
	case r.Kind == Local && s.o.AcceptsNewKeys(""):
		return placeHere
	case r.Kind == Remote && s.o.AcceptsNewKeys(r.Node):
		return placeElsewhere
	}
	return placeAvoided
}
