package ack_test

import (
	"maps"
	"slices"
	"time"

	"shardway/ack"
	"shardway/shardmap"
)

// Keys in quarantine, in a schedule: no map and no lease goes by them, and each node
// refuses them by what its own log says.

// quarantineChecks is what the world knows of them: the keys that are in quarantine, from
// one entry to the next, made from what was asked, and not from what states say.
type quarantineChecks struct{ inForce []quarantinesAt }

type quarantinesAt struct {
	index uint64
	keys  map[ack.KeyMark]quarantinedKey
}

type quarantinedKey struct {
	lasts time.Duration // zero: until it is lifted
	at    time.Duration // when it was first applied
}

// soonOver is the longest that a schedule waits for the end of.
const soonOver = 2 * time.Second

// anyQuarantine draws one, or the end of one. Of two marks that differ in the key of their
// hash alone, either lifts the other.
func (w *world) anyQuarantine() ack.Change {
	c := ack.Change{Kind: ack.ChangeQuarantine, Mark: ack.KeyMark{Shard: shardmap.Shard(w.pick(2)), Hash: uint64(w.pick(2)), HashKeyID: uint32(w.pick(2))}}
	if w.pick(3) == 0 {
		c.Kind = ack.ChangeLift
		return c
	}
	c.For = []time.Duration{0, 300 * time.Millisecond, soonOver, time.Hour}[w.pick(4)]
	return c
}

// keysAt returns what is in quarantine by the log up to an index.
func (c *quarantineChecks) keysAt(index uint64) map[ack.KeyMark]quarantinedKey {
	for _, in := range slices.Backward(c.inForce) {
		if in.index <= index {
			return in.keys
		}
	}
	return nil
}

// sawQuarantines judges what a change of the policy does to them: what was asked, and of
// those that a leader ends, only such as have lasted.
func (w *world) checkQuarantines(after *ack.State, e *logEntry) {
	keys, is := maps.Clone(w.keysAt(after.Index())), after.Policy().Quarantined
	if keys == nil {
		keys = map[ack.KeyMark]quarantinedKey{}
	}
	for _, c := range e.changes {
		if c.Kind == ack.ChangeQuarantine || c.Kind == ack.ChangeLift {
			maps.DeleteFunc(keys, func(m ack.KeyMark, _ quarantinedKey) bool { return m.Shard == c.Mark.Shard && m.Hash == c.Mark.Hash })
		}
		if c.Kind == ack.ChangeQuarantine {
			keys[c.Mark] = quarantinedKey{c.For, w.now}
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

// refuses judges which keys somebody refuses whose state this is.
func (w *world) refuses(who string, s *ack.State) {
	want, got := w.keysAt(s.Index()), s.Policy().Quarantined
	for m, k := range want {
		if q, ok := got[m]; !ok || q.For != k.lasts {
			w.fail("quarantine: by entry %d %s lets key %v through, or for another time: %v", s.Index(), who, m, got)
		}
	}
	if len(got) != len(want) {
		w.fail("quarantine: by entry %d %s refuses %v, and %v are in quarantine", s.Index(), who, got, want)
	}
}

// quarantinesLast reports that one is in force that ought to end by itself soon.
func (w *world) quarantinesLast() bool {
	for _, q := range w.truth.Policy().Quarantined {
		if q.For > 0 && q.For <= soonOver {
			return true
		}
	}
	return false
}
