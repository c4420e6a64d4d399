//go:build linux

package linear

import (
	"maps"
	"math"
	"slices"
)

// settled is an operation that took effect between from and until.
type settled struct {
	Op

	from, until int64
}

// unsettled takes the client's word for when it took effect.
func unsettled(op Op) settled {
	s := settled{Op: op, from: op.Call, until: op.Return}
	if op.Outcome == Unknown {
		s.until = never
	}
	return s
}

// life is what was done with one value: one write, and its reads. The value was
// in the register from before the end of the first to end until after the start
// of the last to start.
type life struct {
	write       settled
	reads       []settled
	first, last settled
}

func (l *life) add(s settled) {
	if s.until < l.first.until {
		l.first = s
	}
	if s.from > l.last.from {
		l.last = s
	}
}

// before shows that something of l had ended before something of m began: by the
// writes if they do, and always with them.
func (l *life) before(m *life) []settled {
	for _, end := range []settled{l.write, l.first} {
		for _, start := range []settled{m.write, m.last} {
			if end.until < start.from {
				return []settled{l.write, m.write, end, start}
			}
		}
	}
	return nil
}

// lives are those of the values of one register. Zero is a register in which
// nobody wrote yet.
type lives struct {
	of map[string]*life
}

// write adds a value.
func (ls *lives) write(s settled) {
	if ls.of == nil {
		// What a register holds before its first write was written before time.
		none := settled{Op: Op{Key: s.Key, Write: true, Outcome: Known}, from: math.MinInt64, until: math.MinInt64}
		ls.of = map[string]*life{"": {write: none, first: none, last: none}}
	}
	ls.of[s.Value] = &life{write: s, first: s, last: s}
}

// read adds a read to the life of its value; false if there is none.
func (ls *lives) read(s settled) bool {
	if ls.of == nil {
		return s.Value == ""
	}
	l, ok := ls.of[s.Value]
	if ok {
		l.reads = append(l.reads, s)
		l.add(s)
	}
	return ok
}

// forget leaves out unknown writes that nobody read: they may have had no effect.
func (ls *lives) forget() {
	maps.DeleteFunc(ls.of, func(_ string, l *life) bool { return l.write.until == never && len(l.reads) == 0 })
}

// all are the operations.
func (ls *lives) all() []settled {
	var all []settled
	for _, l := range ls.of {
		if l.write.from != math.MinInt64 {
			all = append(all, l.write)
		}
		all = append(all, l.reads...)
	}
	return all
}

// contradiction is one that takes the least time, nil if there is none. It costs
// the square of the number of values.
func (ls *lives) contradiction() *contradiction {
	var best *contradiction
	found := func(why string, ops ...settled) {
		if c := (&contradiction{why: why, ops: unique(ops)}); best == nil || c.span() < best.span() {
			best = c
		}
	}
	var before []*life
	for _, value := range slices.Sorted(maps.Keys(ls.of)) {
		a := ls.of[value]
		if a.first.until < a.write.from {
			found("it was read before it was written", a.first, a.write)
		}
		for _, b := range before {
			if a.first.until < b.last.from && b.first.until < a.last.from {
				found("each of these two values was there before the other, and after it", append(a.before(b), b.before(a)...)...)
			}
		}
		before = append(before, a)
	}
	return best
}

// unique leaves out what is there already, and the write before time.
func unique(ops []settled) []settled {
	var kept []settled
	for _, s := range ops {
		same := func(k settled) bool {
			return k.Write == s.Write && k.Value == s.Value && k.from == s.from && k.until == s.until && k.ID == s.ID
		}
		if s.from != math.MinInt64 && !slices.ContainsFunc(kept, same) {
			kept = append(kept, s)
		}
	}
	return kept
}
