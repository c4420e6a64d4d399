package history

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// faultTimeline holds the faults of a test, and answers questions about them.
type faultTimeline struct {
	all   []Fault
	rules *Rules
	// canCauseFailure contains, for each fault, whether it lasted long enough to make a request
	// fail (isTooBrief).
	canCauseFailure []bool
}

// newFaultTimeline returns the timeline of the faults. It classifies all faults at once. A starved
// machine has thousands of faults, so they must not be compared in pairs.
func newFaultTimeline(faults []Fault, rules *Rules) *faultTimeline {
	canCauseFailure := make([]bool, len(faults))
	var pauses []int // indexes of the pauses and stalls
	for i := range faults {
		if faults[i].Kind == Paused || faults[i].Kind == Stalled {
			pauses = append(pauses, i)
		} else {
			canCauseFailure[i] = true
		}
	}
	slices.SortFunc(pauses, func(i, j int) int {
		a, b := &faults[i], &faults[j]
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Node, b.Node), cmp.Compare(a.From, b.From))
	})
	for len(pauses) > 0 {
		count, duration := firstPause(faults, pauses, int64(rules.Lease))
		for _, i := range pauses[:count] {
			canCauseFailure[i] = duration >= int64(rules.Lease)
		}
		pauses = pauses[count:]
	}
	return &faultTimeline{all: faults, rules: rules, canCauseFailure: canCauseFailure}
}

// firstPause returns how many faults count as one pause together with the first one, and the duration
// of that pause. The duration is never if the pause has not ended. pauses contains indexes of faults in
// the order of kind, node and start. Two pauses count as one if less than maxGap lies between them.
func firstPause(faults []Fault, pauses []int, maxGap int64) (count int, duration int64) {
	first := &faults[pauses[0]]
	end := first.end()
	for count = 1; count < len(pauses); count++ {
		next := &faults[pauses[count]]
		isSameNode := next.Kind == first.Kind && next.Node == first.Node
		if !isSameNode || next.From >= addDuration(end, maxGap) {
			break
		}
		end = max(end, next.end())
	}
	if end == never {
		return count, never
	}
	return count, end - first.From
}

// isTooBrief reports whether a fault is a pause of a node, or a stall of the machine, that was
// shorter than a lease. Such a fault may delay requests, but must not make one fail. Several
// pauses count as one if less than a lease lies between them.
func (ft *faultTimeline) isTooBrief(faultIndex int) bool { return !ft.canCauseFailure[faultIndex] }

// activeFaults returns the faults that were active at any time of an interval, without brief pauses.
func (ft *faultTimeline) activeFaults(from, until int64) []*Fault {
	var active []*Fault
	for i := range ft.all {
		fault := &ft.all[i]
		if fault.overlaps(from, until) && !ft.isTooBrief(i) {
			active = append(active, fault)
		}
	}
	return active
}

// anyActive reports whether any fault was active in an interval. Terminated nodes do
// not count.
func (ft *faultTimeline) anyActive(from, until int64) bool {
	for i := range ft.all {
		fault := &ft.all[i]
		if fault.Kind != Terminated && fault.overlaps(from, until) && !ft.isTooBrief(i) {
			return true
		}
	}
	return false
}

// nextFaultAfter returns the earliest time from the start of a fault at which another fault is active; never means that
// there is none. A fault that began before, at nodes without shards in the map, does not count. Such a node has left or has
// not started yet.
func (ft *faultTimeline) nextFaultAfter(fault *Fault, shardMap *Map) int64 {
	next := int64(never)
	for i := range ft.all {
		other := &ft.all[i]
		if other == fault || other.end() < fault.From || ft.isTooBrief(i) {
			continue
		}
		if other.From > fault.From || slices.ContainsFunc(shardMap.Owners, other.affects) {
			next = min(next, max(other.From, fault.From))
		}
	}
	return next
}

// affectSeveralNodes reports whether more than one node had a fault, or was terminated, in an
// interval. Each fault counts for Rules.SettleTime longer than it lasted. After a fault of a single
// node, the other nodes soon elect a leader, which takes over the shards of the faulty node. A second
// faulty node can delay that, because the election may need its vote.
func (ft *faultTimeline) affectSeveralNodes(from, until int64) bool {
	nodes := make(map[string]bool)
	for i := range ft.all {
		fault := &ft.all[i]
		if ft.isTooBrief(i) || !fault.overlapsWithGrace(from, until, ft.rules.SettleTime) {
			continue
		}
		nodes[fault.Node] = true
		if fault.Peer != "" {
			nodes[fault.Peer] = true
		}
	}
	return len(nodes) > 1
}

// pausedUntil returns the end of the pause of a node that includes the time at. Adjacent pauses count
// as one. 0 means that the node was not paused at that time.
func (ft *faultTimeline) pausedUntil(node string, at int64) int64 {
	latestEnd := func(at int64) (end int64) {
		for i := range ft.all {
			fault := &ft.all[i]
			if fault.Kind == Paused && fault.Node == node && fault.overlaps(at, at) {
				end = max(end, fault.end())
			}
		}
		return end
	}
	until := latestEnd(at)
	for until > 0 {
		next := latestEnd(until)
		if next <= until {
			break
		}
		until = next
	}
	return until
}

// isDownAt reports whether the process of a node was dead, paused or terminated at a time.
func (ft *faultTimeline) isDownAt(node string, at int64) bool {
	return slices.ContainsFunc(ft.all, func(fault Fault) bool {
		isDown := fault.isCrash() || fault.Kind == Paused || fault.Kind == Terminated
		return isDown && fault.Node == node && fault.overlaps(at, at)
	})
}

// diedDuring reports whether the process of the node may have died, and so lost its
// connections, during an attempt.
func (ft *faultTimeline) diedDuring(node string, attempt *Attempt) bool {
	for i := range ft.all {
		fault := &ft.all[i]
		if fault.isCrash() && fault.Node == node && fault.From <= attempt.Done && attempt.Sent <= fault.LatestExit {
			return true
		}
	}
	return false
}

// mayBeDown reports whether the node may have had no listening process at some time of an
// attempt.
func (ft *faultTimeline) mayBeDown(node string, attempt *Attempt) bool {
	for i := range ft.all {
		fault := &ft.all[i]
		nodeExited := fault.LatestExit != 0 && fault.Kind != AppDown
		closesListener := nodeExited || fault.Kind == Terminated
		if fault.Node == node && closesListener && fault.overlapsWithGrace(attempt.Sent, attempt.Done, ft.rules.MaxStartTime) {
			return true
		}
	}
	return false
}

// lastAppRestarts returns the time of the last restart of each app that exited up to a time. nodes are
// the nodes to consider. The result has no entry for an app that did not exit.
func (ft *faultTimeline) lastAppRestarts(nodes map[string]bool, exitedBy int64) map[string]int64 {
	restartedAt := make(map[string]int64)
	for i := range ft.all {
		fault := &ft.all[i]
		appExited := fault.Kind == AppDown && fault.LatestExit != 0 && fault.LatestExit <= exitedBy
		if appExited && nodes[fault.Node] {
			// fault.end may be later than exitedBy, because the test may notice late that the new
			// process of the app responds.
			restartedAt[fault.Node] = max(restartedAt[fault.Node], fault.end())
		}
	}
	return restartedAt
}

// graceRestarted reports whether the grace period of an owner that restarts in place may
// have outlasted the queue timeout of a request. A new leader restarts the grace period from
// the beginning. A fault of another node during the restart may cause an election, so the
// grace period may end that much later.
func (ft *faultTimeline) graceRestarted(resp *Response, fault *Fault) bool {
	maxExtension := int64(fault.Grace + ft.rules.DeadAfter + ft.rules.SettleTime)
	return fault.Grace > 0 && slices.ContainsFunc(ft.all, func(other Fault) bool {
		startedDuringRestart := other.Node != fault.Node && fault.From <= other.end() && other.From <= resp.DoneAt()
		return startedDuringRestart && resp.DoneAt() <= addDuration(ft.rules.effectsEnd(&other), maxExtension)
	})
}

// wasResetBefore reports whether a forged refusal of a node had started at a time. To the leader, it
// looks like evidence that the process of the node has exited.
func (ft *faultTimeline) wasResetBefore(node string, at int64) bool {
	return slices.ContainsFunc(ft.all, func(fault Fault) bool {
		return fault.Kind == Reset && fault.affects(node) && fault.From <= at
	})
}

// stalledTime returns the total duration of the stalls during which requests were in flight.
func (ft *faultTimeline) stalledTime(responses []Response) (total time.Duration) {
	for i := range ft.all {
		fault := &ft.all[i]
		if fault.Kind != Stalled || ft.isTooBrief(i) {
			continue
		}
		isInFlight := func(resp Response) bool { return fault.overlaps(resp.SentAt(), resp.DoneAt()) }
		if slices.ContainsFunc(responses, isInFlight) {
			total += time.Duration(fault.end() - fault.From)
		}
	}
	return total
}

// describeContext returns where a request ran, and which faults were active at that time, as the
// end of a violation text. Both are needed to find the cause of a failure.
func (ft *faultTimeline) describeContext(resp *Response, runs []Run) string {
	var text strings.Builder
	since := func(at int64) time.Duration { return time.Duration(at - resp.SentAt()).Round(time.Millisecond) }
	for _, run := range runs {
		fmt.Fprintf(&text, "; ran on %s (epoch %d) from %v to %v, aborted: %v", run.App, run.Epoch, since(run.Start), since(run.end()), run.Aborted)
	}
	for i := range ft.all {
		if fault := &ft.all[i]; fault.From <= resp.DoneAt() && resp.SentAt() <= ft.rules.effectsEnd(fault) {
			fmt.Fprintf(&text, "; %s %s%s from %v to %v", fault.Node, fault.Kind, fault.Peer, since(fault.From), since(fault.end()))
		}
	}
	return text.String()
}
