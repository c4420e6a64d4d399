package ack_test

import (
	"maps"
	"slices"
	"time"

	"shardway/ack"
	"shardway/shardmap"
)

// Quarantined keys in a schedule: maps and leases do not depend on them, and each node refuses
// them according to its own log.

// quarantineChecks is global knowledge: the keys in quarantine after each entry, derived from
// the requests, and not from states.
type quarantineChecks struct{ inForce []quarantinesAt }

type quarantinesAt struct {
	index uint64
	keys  map[ack.KeyFingerprint]quarantinedKey
}

type quarantinedKey struct {
	lasts time.Duration // zero: until it is lifted
	at    time.Duration // when it was first applied
}

// soonOver is the longest quarantine whose end a schedule waits for.
const soonOver = 2 * time.Second

// anyQuarantine returns a random quarantine, or the end of one. Two marks that only differ in
// the hash key lift each other.
func (w *world) anyQuarantine() ack.Change {
	c := ack.Change{Kind: ack.ChangeQuarantine, KeyFingerprint: ack.KeyFingerprint{Shard: shardmap.Shard(w.pick(2)), Hash: uint64(w.pick(2)), HashKeyID: uint32(w.pick(2))}}
	if w.pick(3) == 0 {
		c.Kind = ack.ChangeEndQuarantine
		return c
	}
	c.Duration = []time.Duration{0, 300 * time.Millisecond, soonOver, time.Hour}[w.pick(4)]
	return c
}

// keysAt returns the quarantined keys according to the log up to an index.
func (c *quarantineChecks) keysAt(index uint64) map[ack.KeyFingerprint]quarantinedKey {
	for _, in := range slices.Backward(c.inForce) {
		if in.index <= index {
			return in.keys
		}
	}
	return nil
}

// checkQuarantines checks the effect of a policy change: the requested quarantines, and ends
// by a leader only of those that have lasted long enough.
func (w *world) checkQuarantines(after *ack.State, e *logEntry) {
	keys, is := maps.Clone(w.keysAt(after.Index())), after.Policy().Quarantined
	if keys == nil {
		keys = map[ack.KeyFingerprint]quarantinedKey{}
	}
	for _, c := range e.changes {
		if c.Kind == ack.ChangeQuarantine || c.Kind == ack.ChangeEndQuarantine {
			maps.DeleteFunc(keys, func(m ack.KeyFingerprint, _ quarantinedKey) bool {
				return m.Shard == c.KeyFingerprint.Shard && m.Hash == c.KeyFingerprint.Hash
			})
		}
		if c.Kind == ack.ChangeQuarantine {
			keys[c.KeyFingerprint] = quarantinedKey{c.Duration, w.now}
			w.cover.quarantined++
		}
	}
	for m, k := range keys {
		if _, stays := is[m]; stays || e.byOperator {
			continue
		}
		delete(keys, m)
		w.cover.quarantinesOver++
		// The rates of clocks differ by a tenth.
		if lasted := w.now - k.at; k.lasts == 0 || lasted < k.lasts*9/10 {
			w.fail("quarantine: one of %v is over after %v", k.lasts, lasted)
		}
	}
	w.inForce = append(w.inForce, quarantinesAt{after.Index(), keys})
	w.refuses("the log", after)
}

// refuses checks which keys a node with this state refuses.
func (w *world) refuses(who string, s *ack.State) {
	want, got := w.keysAt(s.Index()), s.Policy().Quarantined
	for m, k := range want {
		if q, ok := got[m]; !ok || q.Duration != k.lasts {
			w.fail("quarantine: by entry %d %s lets key %v through, or for another time: %v", s.Index(), who, m, got)
		}
	}
	if len(got) != len(want) {
		w.fail("quarantine: by entry %d %s refuses %v, and %v are in quarantine", s.Index(), who, got, want)
	}
}

// quarantinesLast reports whether a quarantine is in force that should end soon.
func (w *world) quarantinesLast() bool {
	for _, q := range w.truth.Policy().Quarantined {
		if q.Duration > 0 && q.Duration <= soonOver {
			return true
		}
	}
	return false
}
