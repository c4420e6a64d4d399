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
	firstSeen  map[ack.KeyFingerprint]firstSighting
	hasExpiry  bool          // at least one quarantine has a duration
	nextExpiry time.Duration // when the next quarantine expires, if hasExpiry
}

// firstSighting is when the leader first saw the effect of an entry. A later entry about the same
// object has another index, so its time starts again.
type firstSighting struct {
	entryIndex uint64 // Raft index
	seenAt     time.Duration
}

// expiryChanges returns the changes that lift expired quarantines.
func (t *quarantineTimers) expiryChanges(now time.Duration, policy *ack.Policy) []ack.Change {
	if policy != t.policy {
		t.setPolicy(now, policy)
	}
	if !t.hasExpiry || now < t.nextExpiry {
		return nil
	}
	var changes []ack.Change
	for _, fingerprint := range slices.SortedFunc(maps.Keys(t.firstSeen), ack.KeyFingerprint.Compare) {
		isExpired := now-t.firstSeen[fingerprint].seenAt >= policy.Quarantined[fingerprint].Duration
		if isExpired && len(changes) < ack.MaxChanges {
			changes = append(changes, ack.Change{Kind: ack.ChangeEndQuarantine, KeyFingerprint: fingerprint})
		}
	}
	return changes
}

// setPolicy replaces the policy from which the timers are derived. Quarantines that are in both policies
// keep their start.
func (t *quarantineTimers) setPolicy(now time.Duration, policy *ack.Policy) {
	firstSeen := map[ack.KeyFingerprint]firstSighting{}
	t.policy, t.hasExpiry = policy, false
	for fingerprint, quarantine := range policy.Quarantined {
		if quarantine.Duration == 0 {
			continue
		}
		sighting := t.firstSeen[fingerprint]
		if sighting.entryIndex != quarantine.Index {
			sighting = firstSighting{entryIndex: quarantine.Index, seenAt: now}
		}
		firstSeen[fingerprint] = sighting
		if expiry := sighting.seenAt + quarantine.Duration; !t.hasExpiry || expiry < t.nextExpiry {
			t.nextExpiry, t.hasExpiry = expiry, true
		}
	}
	t.firstSeen = firstSeen
}
