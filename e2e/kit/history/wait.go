package history

import (
	"cmp"
	"slices"
)

// Wait is for how long a thread of a node waited for a processor, as the kernel tells: of
// all its threads that which waited longest since they were looked at last.
type Wait struct {
	Node        string
	From, Until int64
}

// notice is within what time of the end of a stop what ran at a node has to end: CutNotice,
// and of what its threads waited since as much as it takes.
func (j *judge) notice(node string, over, end int64) int64 {
	most := int64(j.rules.CutNotice)
	if late := end - over; late < most || late >= most+int64(j.rules.Wake+j.rules.Starved) {
		return most // waits would make no difference
	}
	return most + j.starved(node, over, end)
}

// starved is for how much of a time threads of a node waited, at most Rules.Starved: who
// is late by more is not late because of that.
func (j *judge) starved(node string, from, until int64) int64 {
	mine := slices.DeleteFunc(slices.Clone(j.h.Waits), func(w Wait) bool { return w.Node != node })
	slices.SortFunc(mine, func(a, b Wait) int { return cmp.Compare(a.From, b.From) })
	sum := int64(0)
	for _, w := range mine {
		if w.From, w.Until = max(w.From, from), min(w.Until, until); w.From < w.Until {
			sum += w.Until - w.From
			from = w.Until // no moment counts twice
		}
	}
	return min(sum, int64(j.rules.Starved))
}
