package ack

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"shardway/shardmap"
)

// KeyMark names a request's key without telling it: by its shard and a keyed hash.
type KeyMark struct {
	Shard shardmap.Shard
	Hash  uint64
	// Under tells hashes under different keys apart: who knows no key of this number
	// recognizes nothing by the mark.
	HashKeyID uint32
}

func (m KeyMark) compare(o KeyMark) int {
	return cmp.Or(cmp.Compare(m.Shard, o.Shard), cmp.Compare(m.Hash, o.Hash), cmp.Compare(m.HashKeyID, o.HashKeyID))
}

// Quarantine is for how long requests of a key are refused.
type Quarantine struct {
	// For is counted by each leader as Policy.Pause is; zero: until it is lifted.
	For time.Duration
	// Since is the index of the entry that asked for it.
	Since uint64
}

// MaxQuarantine is the longest Quarantine with an end.
const MaxQuarantine = MaxPause

// lift ends the quarantine of a key, whatever its hash was made under.
func (p *Policy) lift(m KeyMark) {
	maps.DeleteFunc(p.Quarantined, func(q KeyMark, _ Quarantine) bool { return q.Shard == m.Shard && q.Hash == m.Hash })
}

// ends counts for a leader how long quarantines have been in force.
type quarantineTimers struct {
	policy    *Policy // what the rest was made from
	firstSeen map[KeyMark]firstSighting
	nextEnd   time.Duration // when the first one ends; if any does
	hasEnd    bool
}

// sighting is when the leader first saw the quarantine that an entry asked for.
type firstSighting struct {
	since uint64
	at    time.Duration
}

// over returns the changes that lift what is over.
func (t *quarantineTimers) expired(now time.Duration, p *Policy) []Change {
	if p != t.policy {
		t.update(now, p)
	}
	if !t.hasEnd || now < t.nextEnd {
		return nil
	}
	var over []Change
	for _, m := range slices.SortedFunc(maps.Keys(t.firstSeen), KeyMark.compare) {
		if now-t.firstSeen[m].at >= p.Quarantined[m].For && len(over) < maxChanges {
			over = append(over, Change{Kind: ChangeLift, Mark: m})
		}
	}
	return over
}

// look goes by another policy; what was in force before goes on.
func (t *quarantineTimers) update(now time.Duration, p *Policy) {
	seen := map[KeyMark]firstSighting{}
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

// marks writes the quarantined keys in order.
func (w *writer) quarantines(all map[KeyMark]Quarantine) {
	w.uint(uint64(len(all)))
	for _, m := range slices.SortedFunc(maps.Keys(all), KeyMark.compare) {
		w.mark(m)
		w.uint(uint64(all[m].For))
		w.uint(all[m].Since)
	}
}

func (w *writer) mark(m KeyMark) {
	w.uint(uint64(m.Shard))
	w.uint(m.Hash)
	w.uint(uint64(m.HashKeyID))
}

// marks reads what the writer wrote, and nothing else.
func (r *reader) quarantines() map[KeyMark]Quarantine {
	var all map[KeyMark]Quarantine
	var last KeyMark
	for i := range r.uint(0, MaxPolicy) {
		m := r.mark()
		q := Quarantine{For: time.Duration(r.uint(0, uint64(MaxQuarantine))), Since: r.uint(0, maxUint)}
		if r.err == nil && i > 0 && m.compare(last) <= 0 {
			r.fail("quarantines out of order")
		}
		if r.err != nil {
			return nil
		}
		setKey(&all, m, q)
		last = m
	}
	return all
}

func (r *reader) mark() KeyMark {
	return KeyMark{Shard: r.shard(), Hash: r.uint(0, maxUint), HashKeyID: uint32(r.uint(0, maxUint32))}
}
