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

// unsettled returns op with the interval that the client observed.
func unsettled(op Op) settled {
	s := settled{Op: op, from: op.Call, until: op.Return}
	if op.Outcome == Unknown {
		s.until = never
	}
	return s
}

// lifetime is the set of operations on one value: its write and its reads. The register
// contained the value at least from the earliest end of an operation to the latest start
// of an operation.
type lifetime struct {
	write       settled
	reads       []settled
	first, last settled
}

func (l *lifetime) add(op settled) {
	if op.until < l.first.until {
		l.first = op
	}
	if op.from > l.last.from {
		l.last = op
	}
}

// before returns operations that show that part of l had ended before part of m began. It
// prefers the writes, and always includes them.
func (l *lifetime) before(m *lifetime) []settled {
	for _, end := range []settled{l.write, l.first} {
		for _, start := range []settled{m.write, m.last} {
			if end.until < start.from {
				return []settled{l.write, m.write, end, start}
			}
		}
	}
	return nil
}

// lifetimes are the lifetimes of the values of one register. The zero value is a register
// without writes.
type lifetimes struct {
	byValue map[string]*lifetime
}

// write adds a value.
func (ls *lifetimes) write(op settled) {
	if ls.byValue == nil {
		// The initial value of a register was written before all operations.
		none := settled{Op: Op{Key: op.Key, Write: true, Outcome: Known}, from: math.MinInt64, until: math.MinInt64}
		ls.byValue = map[string]*lifetime{"": {write: none, first: none, last: none}}
	}
	ls.byValue[op.Value] = &lifetime{write: op, first: op, last: op}
}

// read adds a read to the lifetime of its value, and returns false if there is none.
func (ls *lifetimes) read(op settled) bool {
	if ls.byValue == nil {
		return op.Value == ""
	}
	l, ok := ls.byValue[op.Value]
	if ok {
		l.reads = append(l.reads, op)
		l.add(op)
	}
	return ok
}

// dropUnread removes unknown writes that no operation read. They may have had no effect.
func (ls *lifetimes) dropUnread() {
	maps.DeleteFunc(ls.byValue, func(_ string, l *lifetime) bool { return l.write.until == never && len(l.reads) == 0 })
}

// operations returns the operations of all values.
func (ls *lifetimes) operations() []settled {
	var all []settled
	for _, l := range ls.byValue {
		if l.write.from != math.MinInt64 {
			all = append(all, l.write)
		}
		all = append(all, l.reads...)
	}
	return all
}

// contradiction returns the contradiction with the shortest span, or nil. It takes quadratic time
// in the number of values.
func (ls *lifetimes) contradiction() *contradiction {
	var best *contradiction
	found := func(why string, ops ...settled) {
		if c := (&contradiction{why: why, ops: unique(ops)}); best == nil || c.span() < best.span() {
			best = c
		}
	}
	var before []*lifetime
	for _, value := range slices.Sorted(maps.Keys(ls.byValue)) {
		a := ls.byValue[value]
		if a.first.until < a.write.from {
			found("it was read before it was written", a.first, a.write)
		}
		for _, b := range before {
			if a.first.until < b.last.from && b.first.until < a.last.from {
				found("each of these two values was present before and after the other", append(a.before(b), b.before(a)...)...)
			}
		}
		before = append(before, a)
	}
	return best
}

// unique removes duplicates and the initial write.
func unique(ops []settled) []settled {
	var distinct []settled
	for _, op := range ops {
		same := func(k settled) bool {
			return k.Write == op.Write && k.Value == op.Value && k.from == op.from && k.until == op.until && k.ID == op.ID
		}
		if op.from != math.MinInt64 && !slices.ContainsFunc(distinct, same) {
			distinct = append(distinct, op)
		}
	}
	return distinct
}
