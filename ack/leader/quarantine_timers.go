package leader

import (
	"maps"
	"slices"
	"time"

	"shardway/ack"
)

// quarantineTimers measure, for a leader, how long quarantines have been in force.
type quarantineTimers struct {
	policy    *ack.Policy // from which the other fields were derived
	firstSeen map[ack.KeyFingerprint]firstSighting
	nextEndAt time.Duration // when the first one ends, if hasEnd
	hasEnd    bool
}

// firstSighting is when the leader first saw the effect of an entry.
type firstSighting struct {
	entryIndex uint64
	seenAt     time.Duration
}

// expired returns the changes that lift expired quarantines.
func (t *quarantineTimers) expired(now time.Duration, p *ack.Policy) []ack.Change {
	if p != t.policy {
		t.update(now, p)
	}
	if !t.hasEnd || now < t.nextEndAt {
		return nil
	}
	var over []ack.Change
	for _, m := range slices.SortedFunc(maps.Keys(t.firstSeen), ack.KeyFingerprint.Compare) {
		if now-t.firstSeen[m].seenAt >= p.Quarantined[m].Duration && len(over) < ack.MaxChanges {
			over = append(over, ack.Change{Kind: ack.ChangeEndQuarantine, KeyFingerprint: m})
		}
	}
	return over
}

// update switches to another policy. Quarantines that continue keep their start.
func (t *quarantineTimers) update(now time.Duration, p *ack.Policy) {
	seen := map[ack.KeyFingerprint]firstSighting{}
	t.policy, t.hasEnd = p, false
	for m, q := range p.Quarantined {
		if q.Duration == 0 {
			continue
		}
		s := t.firstSeen[m]
		if s.entryIndex != q.Index {
			s = firstSighting{entryIndex: q.Index, seenAt: now}
		}
		seen[m] = s
		if end := s.seenAt + q.Duration; !t.hasEnd || end < t.nextEndAt {
			t.nextEndAt, t.hasEnd = end, true
		}
	}
	t.firstSeen = seen
}
