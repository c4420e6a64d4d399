package history

import (
	"maps"
	"slices"
)

// longestWithoutMajority returns for how long, while a request was in flight, so many
// nodes had faults that the others were no majority. A majority that exists for less than
// Rules.Settle has no leader yet that grants leases. It does not end the interval, but
// its own time does not count.
func (c *checker) longestWithoutMajority(resp *Response) (longest int64) {
	sum, restored := int64(0), int64(0)
	c.eachSpan(resp.final().Sent, resp.Done(), func(from, until int64, noMajority bool) {
		if !noMajority {
			restored += until - from
			return
		}
		if restored >= int64(c.rules.Settle) {
			sum = 0
		}
		sum, restored = sum+until-from, 0
		longest = max(longest, sum)
	})
	return longest
}

// totalWithoutMajority returns the total time without a majority within an interval. During
// that time, no round could be committed.
func (c *checker) totalWithoutMajority(from, until int64) (sum int64) {
	c.eachSpan(from, until, func(from, until int64, noMajority bool) {
		if noMajority {
			sum += until - from
		}
	})
	return sum
}

// eachSpan splits an interval at the starts and ends of faults, and calls visit for each
// part. headless is true if so many nodes had faults that the other voters were no
// majority.
func (c *checker) eachSpan(from, until int64, visit func(from, until int64, headless bool)) {
	nodes := c.voters()
	if from >= until {
		return
	}
	moments := []int64{from, until}
	addMoment := func(t int64) {
		if from < t && t < until {
			moments = append(moments, t)
		}
	}
	for _, t := range c.h.VotesFrom {
		addMoment(t)
	}
	var active []*Fault
	for i := range c.h.Faults {
		f := &c.h.Faults[i]
		if !f.overlaps(from, until) || c.isBrief(i) {
			continue
		}
		active = append(active, f)
		addMoment(f.From)
		addMoment(f.end())
	}
	slices.Sort(moments)
	for i := range moments[1:] {
		at, next := moments[i], moments[i+1]
		if next == at {
			continue
		}
		present := slices.DeleteFunc(slices.Clone(nodes), func(n string) bool { return c.h.VotesFrom[n] > at })
		votes := len(present)
		if c.rules.Voters > 0 {
			votes = min(votes, c.rules.Voters)
		}
		visit(at, next, votes > 0 && 2*countAffected(present, active, at, next) >= votes)
	}
}

// voters returns all nodes that may vote at some time: the owners of all maps and the
// gateways. Without maps, it returns all nodes that clients use.
func (c *checker) voters() []string {
	nodes := make(map[string]bool)
	for i := range c.maps {
		for _, node := range c.maps[i].Owners {
			nodes[node] = true
		}
	}
	delete(nodes, "")
	if len(nodes) == 0 {
		for _, node := range c.rules.Targets {
			nodes[node] = true
		}
	}
	for _, node := range c.rules.Gateways {
		nodes[node] = true
	}
	return slices.Collect(maps.Keys(nodes))
}

// countAffected returns how many of the nodes had one of the faults during the whole
// interval.
func countAffected(nodes []string, faults []*Fault, from, until int64) int {
	n := 0
	for _, node := range nodes {
		if slices.ContainsFunc(faults, func(f *Fault) bool {
			return f.affects(node) && f.From <= from && until <= f.end()
		}) {
			n++
		}
	}
	return n
}
