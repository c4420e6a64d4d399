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

// firstSighting records when this leader first saw a log entry (a quarantine or a gradual drain). A newer
// entry for the same key or node has a different index, so its timer restarts.
type firstSighting struct {
	entryIndex uint64 // Raft index
	seenAt     time.Duration
}

// expiryChanges returns the changes that lift expired quarantines.
func (qt *quarantineTimers) expiryChanges(now time.Duration, policy *ack.Policy) []ack.Change {
	if policy != qt.policy {
		qt.setPolicy(now, policy)
	}
	if !qt.hasExpiry || now < qt.nextExpiry {
		return nil
	}
	var changes []ack.Change
	for _, fingerprint := range slices.SortedFunc(maps.Keys(qt.firstSeen), ack.KeyFingerprint.Compare) {
		isExpired := now-qt.firstSeen[fingerprint].seenAt >= policy.Quarantined[fingerprint].Duration
		if isExpired && len(changes) < ack.MaxChanges {
			changes = append(changes, ack.Change{Kind: ack.ChangeEndQuarantine, KeyFingerprint: fingerprint})
		}
	}
	return changes
}

// setPolicy replaces the policy from which the timers are derived. Quarantines that are in both policies
// keep their start.
func (qt *quarantineTimers) setPolicy(now time.Duration, policy *ack.Policy) {
	firstSeen := map[ack.KeyFingerprint]firstSighting{}
	qt.policy, qt.hasExpiry = policy, false
	for fingerprint, quarantine := range policy.Quarantined {
		if quarantine.Duration == 0 {
			continue
		}
		sighting := qt.firstSeen[fingerprint]
		if sighting.entryIndex != quarantine.Index {
			sighting = firstSighting{entryIndex: quarantine.Index, seenAt: now}
		}
		firstSeen[fingerprint] = sighting
		if expiry := sighting.seenAt + quarantine.Duration; !qt.hasExpiry || expiry < qt.nextExpiry {
			qt.nextExpiry, qt.hasExpiry = expiry, true
		}
	}
	qt.firstSeen = firstSeen
}
