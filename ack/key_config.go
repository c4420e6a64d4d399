package ack

import (
	"crypto/sha256"
	"encoding/binary"

	"shardway/shardmap"
)

// MaxKeys is the largest key configuration, in bytes.
const MaxKeys = 16 << 10

// KeysDigest returns the number that identifies a key configuration in heartbeats; zero for
// the empty text. It only has to distinguish configurations that operators write, so
// collisions by intention do not matter.
func KeysDigest(text string) uint64 {
	if text == "" {
		return 0
	}
	sum := sha256.Sum256([]byte(text))
	return max(binary.BigEndian.Uint64(sum[:8]), 1)
}

// Keys returns the active key configuration: the text with which every node finds the keys of
// requests. It is empty before the first map.
func (s *State) Keys() string { return s.keys }

// KeysSince returns the epoch of the map that activated the key configuration. Requests that
// were routed by an earlier map were keyed by another configuration.
func (s *State) KeysSince() shardmap.Epoch { return s.keysSince }

// ChangesKeys reports whether the open proposal changes the key configuration. Then no request
// may run on any node, because each may have another key after the commit.
func (s *State) ChangesKeys() bool { return s.Open() && s.proposedKeys != "" }

// setProposedKeys sets the key configuration of a proposal; empty means unchanged.
func (s *State) setProposedKeys(text string) {
	s.proposedKeys = text
	if text == s.keys {
		s.proposedKeys = ""
	}
}

// commitKeys activates the key configuration of the last proposal.
func (s *State) commitKeys() {
	if s.proposedKeys != "" {
		s.keys, s.keysSince, s.proposedKeys = s.proposedKeys, s.last.Epoch(), ""
	}
}
