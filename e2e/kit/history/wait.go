package history

import (
	"cmp"
	"slices"
)

// CPUWait is a period in which a thread of a node waited for a processor, according to the kernel.
// Its length is the longest wait of all threads of the node since the last observation.
type CPUWait struct {
	Node        string
	From, Until int64
}

// cpuWaits contains the waits of a history, and bounds the delays that they excuse.
type cpuWaits struct {
	rules *Rules
	all   []CPUWait
}

// maxNoticeTime returns how long after a pause of its node a run may still end. It is
// MaxAbortNotice, plus the time that threads of the node have waited for processors since the
// pause. runEnd is when the run did end.
func (cw *cpuWaits) maxNoticeTime(node string, pauseEnd, runEnd int64) int64 {
	limit := int64(cw.rules.MaxAbortNotice)
	if delay := runEnd - pauseEnd; delay < limit || delay >= limit+int64(cw.rules.WakeTime+cw.rules.MaxCPUWait) {
		return limit // The run is in time without waits, or too late with the longest permitted wait.
	}
	return limit + cw.waitTime(node, pauseEnd, runEnd)
}

// waitTime returns how long threads of a node waited for processors within an interval. The
// result is at most Rules.MaxCPUWait, because a longer delay has another cause.
func (cw *cpuWaits) waitTime(node string, from, until int64) int64 {
	waits := slices.DeleteFunc(slices.Clone(cw.all), func(wait CPUWait) bool { return wait.Node != node })
	slices.SortFunc(waits, func(a, b CPUWait) int { return cmp.Compare(a.From, b.From) })
	total := int64(0)
	for _, wait := range waits {
		if start, end := max(wait.From, from), min(wait.Until, until); start < end {
			total += end - start
			from = end // Waits of several threads at the same time count once.
		}
	}
	return min(total, int64(cw.rules.MaxCPUWait))
}
