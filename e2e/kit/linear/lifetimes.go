//go:build linux

package linear

import (
	"maps"
	"math"
	"slices"
)

// timedOp is an operation with the interval in which it took effect.
type timedOp struct {
	Op

	// earliest and latest are the bounds of the interval. latest is noReturn for a write that may
	// still take effect.
	earliest, latest int64
}

// withClientTimes returns op with the interval that its client observed: from the call to the
// return, or without an end if the client got no response.
func withClientTimes(op Op) timedOp {
	timed := timedOp{Op: op, earliest: op.Call, latest: op.Return}
	if op.Outcome == Unknown {
		timed.latest = noReturn
	}
	return timed
}

// isInitial reports whether the operation is the initial write of a register, before all other operations.
func (op timedOp) isInitial() bool { return op.earliest == math.MinInt64 }

// isSame reports whether two values describe one operation.
func (op timedOp) isSame(other timedOp) bool {
	isSameCall := other.ID == op.ID && other.earliest == op.earliest && other.latest == op.latest
	return isSameCall && other.Write == op.Write && other.Value == op.Value
}

// lifetime is the set of operations on one value: its write and its reads. The register
// contained the value at least from firstEnd.latest to lastStart.earliest.
type lifetime struct {
	write timedOp
	reads []timedOp
	// firstEnd is the operation that ended first, and lastStart the operation that started last.
	firstEnd, lastStart timedOp
}

// extend updates the bounds of the lifetime with one more operation on its value.
func (l *lifetime) extend(op timedOp) {
	if op.latest < l.firstEnd.latest {
		l.firstEnd = op
	}
	if op.earliest > l.lastStart.earliest {
		l.lastStart = op
	}
}

// proofOfOrder returns the two writes, an operation on the value of l and an operation on the
// value of next. The first operation ended before the second one started, which proves that the
// register contained the value of l before that of next. The writes are preferred as proof,
// because the report contains them anyway. proofOfOrder returns nil if there is no proof.
func (l *lifetime) proofOfOrder(next *lifetime) []timedOp {
	for _, ended := range []timedOp{l.write, l.firstEnd} {
		for _, started := range []timedOp{next.write, next.lastStart} {
			if ended.latest < started.earliest {
				return []timedOp{l.write, next.write, ended, started}
			}
		}
	}
	return nil
}

// registerValues contains the lifetimes of the values of one register. The zero value is a
// register without writes.
type registerValues struct {
	lifetimes map[string]*lifetime // by value
}

// addWrite adds the value of a write.
func (v *registerValues) addWrite(write timedOp) {
	if v.lifetimes == nil {
		// The initial value of a register was written before all operations.
		initial := timedOp{Op: Op{Key: write.Key, Write: true, Outcome: Known}, earliest: math.MinInt64, latest: math.MinInt64}
		v.lifetimes = map[string]*lifetime{"": {write: initial, firstEnd: initial, lastStart: initial}}
	}
	v.lifetimes[write.Value] = &lifetime{write: write, firstEnd: write, lastStart: write}
}

// addRead adds a read to the lifetime of its value. It returns false if no write stored that
// value.
func (v *registerValues) addRead(read timedOp) bool {
	if v.lifetimes == nil {
		return read.Value == ""
	}
	lifetime, ok := v.lifetimes[read.Value]
	if ok {
		lifetime.reads = append(lifetime.reads, read)
		lifetime.extend(read)
	}
	return ok
}

// dropUnreadWrites removes writes without a response that no operation read. They may have had
// no effect.
func (v *registerValues) dropUnreadWrites() {
	maps.DeleteFunc(v.lifetimes, func(_ string, l *lifetime) bool { return l.write.latest == noReturn && len(l.reads) == 0 })
}

// operations returns the operations on all values, without the initial write.
func (v *registerValues) operations() []timedOp {
	var all []timedOp
	for _, l := range v.lifetimes {
		if !l.write.isInitial() {
			all = append(all, l.write)
		}
		all = append(all, l.reads...)
	}
	return all
}

// shortestContradiction returns the contradiction with the shortest span, or nil if there is
// none. It takes quadratic time in the number of values.
func (v *registerValues) shortestContradiction() *contradiction {
	var shortest *contradiction
	consider := func(reason string, ops ...timedOp) {
		candidate := &contradiction{reason: reason, ops: withoutDuplicates(ops)}
		if shortest == nil || candidate.span() < shortest.span() {
			shortest = candidate
		}
	}
	var compared []*lifetime
	for _, value := range slices.Sorted(maps.Keys(v.lifetimes)) {
		current := v.lifetimes[value]
		if current.firstEnd.latest < current.write.earliest {
			consider("it was read before it was written", current.firstEnd, current.write)
		}
		for _, other := range compared {
			if current.precedes(other) && other.precedes(current) {
				consider("each of these two values was present before and after the other", append(current.proofOfOrder(other), other.proofOfOrder(current)...)...)
			}
		}
		compared = append(compared, current)
	}
	return shortest
}

// precedes reports whether the register contained the value of l before that of next: some operation on
// the first value ended before some operation on the second value started.
func (l *lifetime) precedes(next *lifetime) bool {
	return l.firstEnd.latest < next.lastStart.earliest
}

// withoutDuplicates returns ops without duplicates and without the initial write.
func withoutDuplicates(ops []timedOp) []timedOp {
	var distinct []timedOp
	for _, op := range ops {
		if !op.isInitial() && !slices.ContainsFunc(distinct, op.isSame) {
			distinct = append(distinct, op)
		}
	}
	return distinct
}
