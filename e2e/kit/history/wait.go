package history

import (
	"cmp"
	"slices"
)

// CPUWait is how long a thread of a node waited for a processor, according to the kernel. It
// is the longest wait of all its threads since the last observation.
type CPUWait struct {
	Node        string
	From, Until int64
}

// maxNoticeTime returns within what time after a pause a run at a node must end: MaxAbortNotice,
// plus the time that its threads waited for processors since the pause.
func (c *checker) maxNoticeTime(node string, end, runEnd int64) int64 {
	limit := int64(c.rules.MaxAbortNotice)
	if late := runEnd - end; late < limit || late >= limit+int64(c.rules.WakeTime+c.rules.MaxCPUWait) {
		return limit // Waits would make no difference.
	}
	return limit + c.cpuWaitTime(node, end, runEnd)
}

// cpuWaitTime returns how long threads of a node waited within an interval, limited to
// Rules.MaxCPUWait. Lateness beyond that limit has another cause.
func (c *checker) cpuWaitTime(node string, from, until int64) int64 {
	waits := slices.DeleteFunc(slices.Clone(c.history.CPUWaits), func(w CPUWait) bool { return w.Node != node })
	slices.SortFunc(waits, func(a, b CPUWait) int { return cmp.Compare(a.From, b.From) })
	sum := int64(0)
	for _, w := range waits {
		if w.From, w.Until = max(w.From, from), min(w.Until, until); w.From < w.Until {
			sum += w.Until - w.From
			from = w.Until // Each moment counts once.
		}
	}
	return min(sum, int64(c.rules.MaxCPUWait))
}
