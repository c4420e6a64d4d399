package leader

import (
	"maps"
	"slices"
	"time"

	"shardway/ack"
)

// quarantineTimers measure how long quarantines have been in force. A quarantine refuses the
// requests of one key, and the leader lifts it after its duration.
type quarantineTimers struct {
	policy *ack.Policy // from which the other fields were derived
	// firstSeen are the quarantines with a duration.
	firstSeen map[ack.KeyFingerprint]firstSighting
	hasEnd    bool          // any quarantine has a duration
	nextEndAt time.Duration // when the next quarantine ends, if hasEnd
}

// firstSighting is when the leader first saw the effect of an entry. A later entry about the same
// object has another index, so its time starts again.
type firstSighting struct {
	entryIndex uint64 // Raft index
	seenAt     time.Duration
}

// expired returns the changes that lift expired quarantines.
func (t *quarantineTimers) expired(now time.Duration, policy *ack.Policy) []ack.Change {
	if policy != t.policy {
		t.update(now, policy)
	}
	if !t.hasEnd || now < t.nextEndAt {
		return nil
	}
	var changes []ack.Change
	for _, fingerprint := range slices.SortedFunc(maps.Keys(t.firstSeen), ack.KeyFingerprint.Compare) {
		isOver := now-t.firstSeen[fingerprint].seenAt >= policy.Quarantined[fingerprint].Duration
		if isOver && len(changes) < ack.MaxChanges {
			changes = append(changes, ack.Change{Kind: ack.ChangeEndQuarantine, KeyFingerprint: fingerprint})
		}
	}
	return changes
}

// update switches to another policy. Quarantines that continue keep their start.
func (t *quarantineTimers) update(now time.Duration, policy *ack.Policy) {
	firstSeen := map[ack.KeyFingerprint]firstSighting{}
	t.policy, t.hasEnd = policy, false
	for fingerprint, quarantine := range policy.Quarantined {
		if quarantine.Duration == 0 {
			continue
		}
		sighting := t.firstSeen[fingerprint]
		if sighting.entryIndex != quarantine.Index {
			sighting = firstSighting{entryIndex: quarantine.Index, seenAt: now}
		}
		firstSeen[fingerprint] = sighting
		if end := sighting.seenAt + quarantine.Duration; !t.hasEnd || end < t.nextEndAt {
			t.nextEndAt, t.hasEnd = end, true
		}
	}
	t.firstSeen = firstSeen
}
