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
	firstSeen map[ack.KeyMark]firstSighting
	nextEnd   time.Duration // when the first one ends, if hasEnd
	hasEnd    bool
}

// firstSighting is when the leader first saw the effect of an entry.
type firstSighting struct {
	since uint64
	at    time.Duration
}

// expired returns the changes that lift expired quarantines.
func (t *quarantineTimers) expired(now time.Duration, p *ack.Policy) []ack.Change {
	if p != t.policy {
		t.update(now, p)
	}
	if !t.hasEnd || now < t.nextEnd {
		return nil
	}
	var over []ack.Change
	for _, m := range slices.SortedFunc(maps.Keys(t.firstSeen), ack.KeyMark.Compare) {
		if now-t.firstSeen[m].at >= p.Quarantined[m].For && len(over) < ack.MaxChanges {
			over = append(over, ack.Change{Kind: ack.ChangeLift, Mark: m})
		}
	}
	return over
}

// update switches to another policy. Quarantines that continue keep their start.
func (t *quarantineTimers) update(now time.Duration, p *ack.Policy) {
	seen := map[ack.KeyMark]firstSighting{}
	t.policy, t.hasEnd = p, false
	for m, q := range p.Quarantined {
		if q.For == 0 {
			continue
		}
		s := t.firstSeen[m]
		if s.since != q.Since {
			s = firstSighting{since: q.Since, at: now}
		}
		seen[m] = s
		if end := s.at + q.For; !t.hasEnd || end < t.nextEnd {
			t.nextEnd, t.hasEnd = end, true
		}
	}
	t.firstSeen = seen
}
