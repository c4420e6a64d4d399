package history

import (
	"cmp"
	"slices"
)

// isTooBrief reports whether a fault is a pause of a node, or a stall of the machine, that was
// shorter than a lease. Such a fault may delay requests, but must not make one fail. Several
// pauses count as one if less than a lease lies between them.
func (c *checker) isTooBrief(faultIndex int) bool { return !c.canCauseFailure[faultIndex] }

// classifyFaults sets canCauseFailure for all faults at once. A starved machine has thousands of
// faults, so they must not be compared in pairs.
func (c *checker) classifyFaults() {
	faults := c.history.Faults
	c.canCauseFailure = make([]bool, len(faults))
	var pauses []int // indexes of the pauses and stalls
	for i := range faults {
		if faults[i].Kind == Paused || faults[i].Kind == Stalled {
			pauses = append(pauses, i)
		} else {
			c.canCauseFailure[i] = true
		}
	}
	slices.SortFunc(pauses, func(i, j int) int {
		a, b := &faults[i], &faults[j]
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Node, b.Node), cmp.Compare(a.From, b.From))
	})
	for len(pauses) > 0 {
		count, duration := c.firstPause(pauses)
		for _, i := range pauses[:count] {
			c.canCauseFailure[i] = duration >= int64(c.rules.Lease)
		}
		pauses = pauses[count:]
	}
}

// firstPause returns how many faults count as one pause together with the first one, and the duration
// of that pause. The duration is never if the pause has not ended. pauses contains indexes of faults in
// the order of kind, node and start.
func (c *checker) firstPause(pauses []int) (count int, duration int64) {
	first := &c.history.Faults[pauses[0]]
	end := first.end()
	for count = 1; count < len(pauses); count++ {
		next := &c.history.Faults[pauses[count]]
		isSameNode := next.Kind == first.Kind && next.Node == first.Node
		if !isSameNode || next.From >= addDuration(end, int64(c.rules.Lease)) {
			break
		}
		end = max(end, next.end())
	}
	if end == never {
		return count, never
	}
	return count, end - first.From
}
