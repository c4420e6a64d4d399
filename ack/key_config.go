package ack

import (
	"crypto/sha256"
	"encoding/binary"

	"shardway/shardmap"
)

// MaxKeyConfig is the largest key configuration, in bytes.
const MaxKeyConfig = 16 << 10

// KeyConfigDigest returns the number that identifies a key configuration in heartbeats; zero for
// the empty text. It only has to distinguish configurations that operators write, so
// collisions by intention do not matter.
func KeyConfigDigest(text string) uint64 {
	if text == "" {
		return 0
	}
	sum := sha256.Sum256([]byte(text))
	return max(binary.BigEndian.Uint64(sum[:8]), 1)
}

// KeyConfig returns the active key configuration: the text with which every node finds the keys of
// requests. It is empty before the first map.
func (s *State) KeyConfig() string { return s.keyConfig }

// KeyConfigSince returns the epoch of the map that activated the key configuration. Requests that
// were routed by an earlier map were keyed by another configuration.
func (s *State) KeyConfigSince() shardmap.Epoch { return s.keyConfigSince }

// ChangesKeyConfig reports whether the open proposal changes the key configuration. Then no request
// may run on any node, because each may have another key after the commit.
func (s *State) ChangesKeyConfig() bool { return s.HasOpenProposal() && s.proposedKeyConfig != "" }

// setProposedKeyConfig sets the key configuration of a proposal; empty means unchanged.
func (s *State) setProposedKeyConfig(text string) {
	s.proposedKeyConfig = text
	if text == s.keyConfig {
		s.proposedKeyConfig = ""
	}
}

// commitKeyConfig activates the key configuration of the last proposal.
func (s *State) commitKeyConfig() {
	if s.proposedKeyConfig != "" {
		s.keyConfig, s.keyConfigSince, s.proposedKeyConfig = s.proposedKeyConfig, s.proposed.Epoch(), ""
	}
}
