package history

import (
	"maps"
	"slices"
)

// majority determines when so many voters had faults that the others were no majority.
type majority struct {
	rules      *Rules
	faults     *faultTimeline
	voters     []string         // all nodes that may vote at some time
	voterSince map[string]int64 // History.VoterSince
}

// newMajority returns the majority of all nodes that may vote at some time: the owners of all maps
// and the gateways. Without maps, these are all nodes that clients use.
func newMajority(shardMaps mapTimeline, voterSince map[string]int64, faults *faultTimeline, rules *Rules) *majority {
	nodes := make(map[string]bool)
	for i := range shardMaps {
		for _, node := range shardMaps[i].Owners {
			nodes[node] = true
		}
	}
	delete(nodes, "")
	if len(nodes) == 0 {
		for _, node := range rules.Targets {
			nodes[node] = true
		}
	}
	for _, node := range rules.Gateways {
		nodes[node] = true
	}
	voters := slices.Collect(maps.Keys(nodes))
	return &majority{rules: rules, faults: faults, voters: voters, voterSince: voterSince}
}

// longestWithout returns the longest time without a majority while a request was in flight: so many
// nodes had faults that the other nodes were no majority. A majority that exists for less than
// Rules.SettleTime does not end this time, because it may not have elected a leader yet. The time
// with such a majority is not counted.
func (mj *majority) longestWithout(resp *Response) (longest int64) {
	lost, restored := int64(0), int64(0) // current time without a majority, and the time with one after it
	mj.forEachInterval(resp.lastAttempt().Sent, resp.DoneAt(), func(from, until int64, noMajority bool) {
		if !noMajority {
			restored += until - from
			return
		}
		if restored >= int64(mj.rules.SettleTime) {
			lost = 0
		}
		lost, restored = lost+until-from, 0
		longest = max(longest, lost)
	})
	return longest
}

// totalWithout returns the total time without a majority within an interval. No map can be
// committed during that time.
func (mj *majority) totalWithout(from, until int64) (sum int64) {
	mj.forEachInterval(from, until, func(from, until int64, noMajority bool) {
		if noMajority {
			sum += until - from
		}
	})
	return sum
}

// forEachInterval splits an interval at the starts and ends of faults, and calls visit for each
// part. noMajority is true if so many nodes had faults that the other voters were no
// majority.
func (mj *majority) forEachInterval(from, until int64, visit func(from, until int64, noMajority bool)) {
	if from >= until {
		return
	}
	active := mj.faults.activeFaults(from, until)
	boundaries := mj.boundaries(from, until, active)
	for i := range boundaries[1:] {
		start, end := boundaries[i], boundaries[i+1]
		hasNoVoteYet := func(node string) bool { return mj.voterSince[node] > start }
		voters := slices.DeleteFunc(slices.Clone(mj.voters), hasNoVoteYet)
		visit(start, end, mj.lacksMajority(voters, active, start, end))
	}
}

// lacksMajority reports whether so many of the voters had faults during the whole interval that the
// others were no majority.
func (mj *majority) lacksMajority(voters []string, faults []*Fault, from, until int64) bool {
	votes := len(voters)
	if mj.rules.Voters > 0 {
		votes = min(votes, mj.rules.Voters)
	}
	return votes > 0 && 2*countAffected(voters, faults, from, until) >= votes
}

// boundaries returns the times of an interval at which a fault starts or ends, or a node gets its vote.
// They are in ascending order, without duplicates, and include both ends of the interval.
func (mj *majority) boundaries(from, until int64, faults []*Fault) []int64 {
	boundaries := []int64{from, until}
	for _, votesFrom := range mj.voterSince {
		boundaries = append(boundaries, votesFrom)
	}
	for _, fault := range faults {
		boundaries = append(boundaries, fault.From, fault.end())
	}
	boundaries = slices.DeleteFunc(boundaries, func(at int64) bool { return at < from || until < at })
	slices.Sort(boundaries)
	return slices.Compact(boundaries)
}

// countAffected returns how many of the nodes had one of the faults during the whole
// interval.
func countAffected(nodes []string, faults []*Fault, from, until int64) int {
	n := 0
	for _, node := range nodes {
		if slices.ContainsFunc(faults, func(fault *Fault) bool {
			return fault.affects(node) && fault.From <= from && until <= fault.end()
		}) {
			n++
		}
	}
	return n
}
