package history

import (
	"cmp"
	"slices"
)

// runIndex contains the runs of a history by request and by shard.
type runIndex struct {
	rules     *Rules
	byRequest map[string][]Run // by request ID
	byShard   map[uint32][]Run // by shard, in ascending order of Start, without Admissions
	// leaseTimes are the times at which each node certainly held a lease, because it ran or
	// admitted a request. They are in ascending order.
	leaseTimes map[string][]int64
}

// newRunIndex returns the index of the runs and admissions of a history.
func newRunIndex(history *History, rules *Rules) *runIndex {
	ri := &runIndex{
		rules: rules, byRequest: make(map[string][]Run, len(history.Responses)),
		byShard: make(map[uint32][]Run), leaseTimes: make(map[string][]int64),
	}
	for _, run := range history.Runs {
		ri.byRequest[run.ID] = append(ri.byRequest[run.ID], run)
		ri.byShard[run.Shard] = append(ri.byShard[run.Shard], run)
		ri.leaseTimes[nodeOf(run.App)] = append(ri.leaseTimes[nodeOf(run.App)], run.Start)
	}
	for _, admission := range history.Admissions {
		ri.leaseTimes[admission.Node] = append(ri.leaseTimes[admission.Node], admission.From, admission.Until)
	}
	for _, runs := range ri.byShard {
		slices.SortFunc(runs, compareStart)
	}
	for _, times := range ri.leaseTimes {
		slices.Sort(times)
	}
	return ri
}

// compareStart orders runs by their start, and runs with the same start by their epoch.
func compareStart(a, b Run) int {
	return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(a.Epoch, b.Epoch))
}

// requestShard returns the shard of a request. ok is false if the shard is not known.
func (ri *runIndex) requestShard(resp *Response) (shard uint32, ok bool) {
	if ri.rules.Shards > 0 {
		return ShardOf(resp.Key, ri.rules.Shards, ri.rules.Services), true
	}
	for _, run := range ri.byRequest[resp.ID] {
		return run.Shard, true
	}
	return 0, false
}

// lastLease returns the last time up to until at which a node certainly held a lease, because it ran
// or admitted a request. ok is false if there is none.
func (ri *runIndex) lastLease(node string, until int64) (at int64, ok bool) {
	leaseTimes := ri.leaseTimes[nodeOf(node)]
	i, found := slices.BinarySearch(leaseTimes, until)
	if found {
		return until, true
	}
	if i == 0 {
		return 0, false
	}
	return leaseTimes[i-1], true
}

// addOwners adds the nodes that ran requests of a shard in an interval, and the last node that did so
// before.
func (ri *runIndex) addOwners(owners map[string]bool, shard uint32, from, until int64) {
	previousOwner := ""
	for _, run := range ri.byShard[shard] {
		if run.Start > until {
			break // The runs are in the order of their start.
		}
		if run.Start < from {
			previousOwner = run.App
		}
		if run.Start >= from || run.end() >= from {
			owners[run.App] = true
		}
	}
	owners[previousOwner] = true
}
