package ack

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"shardway/shardmap"
)

// KeyFingerprint identifies the key of a request without revealing it: by its shard and a keyed
// hash.
type KeyFingerprint struct {
	Shard shardmap.Shard
	Hash  uint64
	// HashKeyID is the number of the hash key. A node without that key cannot recognize
	// requests by the fingerprint.
	HashKeyID uint32
}

// Compare orders fingerprints by shard, then by hash, then by hash key.
func (f KeyFingerprint) Compare(other KeyFingerprint) int {
	return cmp.Or(cmp.Compare(f.Shard, other.Shard), cmp.Compare(f.Hash, other.Hash), cmp.Compare(f.HashKeyID, other.HashKeyID))
}

// Quarantine is the record of a key whose requests are refused.
type Quarantine struct {
	// Duration is the time until the quarantine ends. Each leader measures it like Policy.Pause.
	// Zero means that it lasts until an operator ends it.
	Duration time.Duration
	// Index is the index of the entry that began it.
	Index uint64
}

// MaxQuarantine is the longest Quarantine with an end.
const MaxQuarantine = MaxPause

// endQuarantine ends the quarantine of a key, with any hash key.
func (p *Policy) endQuarantine(fingerprint KeyFingerprint) {
	maps.DeleteFunc(p.Quarantined, func(quarantined KeyFingerprint, _ Quarantine) bool {
		return quarantined.Shard == fingerprint.Shard && quarantined.Hash == fingerprint.Hash
	})
}

// writeQuarantines writes the quarantined keys in order.
func (w *writer) writeQuarantines(quarantines map[KeyFingerprint]Quarantine) {
	w.uint(uint64(len(quarantines)))
	for _, fingerprint := range slices.SortedFunc(maps.Keys(quarantines), KeyFingerprint.Compare) {
		w.writeKeyFingerprint(fingerprint)
		w.uint(uint64(quarantines[fingerprint].Duration))
		w.uint(quarantines[fingerprint].Index)
	}
}

// writeKeyFingerprint writes a fingerprint.
func (w *writer) writeKeyFingerprint(fingerprint KeyFingerprint) {
	w.uint(uint64(fingerprint.Shard))
	w.uint(fingerprint.Hash)
	w.uint(uint64(fingerprint.HashKeyID))
}

// readQuarantines decodes the output of writer.writeQuarantines.
func (r *reader) readQuarantines() map[KeyFingerprint]Quarantine {
	return readSortedFunc(r, KeyFingerprint.Compare, r.readKeyFingerprint, func() Quarantine {
		return Quarantine{Duration: time.Duration(r.uint(0, uint64(MaxQuarantine))), Index: r.uint(0, maxUint)}
	})
}

// readKeyFingerprint decodes a fingerprint; it is the inverse of writer.writeKeyFingerprint.
func (r *reader) readKeyFingerprint() KeyFingerprint {
	return KeyFingerprint{Shard: r.readShard(), Hash: r.uint(0, maxUint), HashKeyID: uint32(r.uint(0, maxUint32))}
}
