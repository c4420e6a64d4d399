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

// keyConfig contains the key configuration in force, and the one of the open proposal.
type keyConfig struct {
	active   string         // empty before the first map
	since    shardmap.Epoch // the map that activated it
	proposed string         // empty means unchanged
}

// propose sets the key configuration of a new proposal; empty means unchanged.
func (kc *keyConfig) propose(text string) {
	kc.proposed = text
	if text == kc.active {
		kc.proposed = ""
	}
}

// commit activates the key configuration of the proposal of the given epoch.
func (kc *keyConfig) commit(epoch shardmap.Epoch) {
	if kc.proposed != "" {
		kc.active, kc.since, kc.proposed = kc.proposed, epoch, ""
	}
}

// contradicts reports whether the key configuration of a decoded state contradicts its maps.
func (kc *keyConfig) contradicts(committed *shardmap.Map, hasOpenProposal bool) bool {
	changes := kc.proposed != ""
	changesWithoutProposal := changes && !hasOpenProposal
	changesNothing := changes && kc.proposed == kc.active
	isNewerThanMap := kc.since > committed.Epoch()
	isIncomplete := (kc.active == "") != (kc.since == 0) // only one of text and epoch is set
	return changesWithoutProposal || changesNothing || isNewerThanMap || isIncomplete
}

// writeKeyConfig writes the key configuration.
func (w *writer) writeKeyConfig(config keyConfig) {
	w.text(config.active)
	w.uint(uint64(config.since))
	w.text(config.proposed)
}

// readKeyConfig decodes the output of writer.writeKeyConfig.
func (r *reader) readKeyConfig() keyConfig {
	return keyConfig{active: r.text(0, MaxKeyConfig), since: r.readEpoch(), proposed: r.text(0, MaxKeyConfig)}
}

// KeyConfig returns the active key configuration: the text with which every node finds the keys of
// requests. It is empty before the first map.
func (s *State) KeyConfig() string { return s.keyConfig.active }

// KeyConfigSince returns the epoch of the map that activated the key configuration. Requests that
// were routed by an earlier map were keyed by another configuration.
func (s *State) KeyConfigSince() shardmap.Epoch { return s.keyConfig.since }

// ChangesKeyConfig reports whether the open proposal changes the key configuration. Then no request
// may run on any node, because each may have another key after the commit.
func (s *State) ChangesKeyConfig() bool { return s.HasOpenProposal() && s.keyConfig.proposed != "" }
