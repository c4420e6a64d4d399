package history

import (
	"maps"
	"slices"
)

// alone is for how long, while a request was under way, something was done to so many
// nodes that the others were no majority. One that is back for less than Rules.Settle has
// no leader yet that grants leases, so it ends nothing; that time does not count.
func (j *judge) alone(a *Answer) (longest int64) {
	sum, back := int64(0), int64(0)
	j.spans(a.final().Sent, a.Done(), func(from, until int64, headless bool) {
		if !headless {
			back += until - from
			return
		}
		if back >= int64(j.rules.Settle) {
			sum = 0
		}
		sum, back = sum+until-from, 0
		longest = max(longest, sum)
	})
	return longest
}

// headless is for how long altogether, in an interval, that was so: nothing that had
// begun could come to its end.
func (j *judge) headless(from, until int64) (sum int64) {
	j.spans(from, until, func(from, until int64, headless bool) {
		if headless {
			sum += until - from
		}
	})
	return sum
}

// spans goes through an interval, from one fault's begin or end to the next, and tells
// where something was done to so many nodes that the others were no majority, among
// those that had a vote by then.
func (j *judge) spans(from, until int64, span func(from, until int64, headless bool)) {
	nodes := j.voters()
	if from >= until {
		return
	}
	moments := []int64{from, until}
	note := func(t int64) {
		if from < t && t < until {
			moments = append(moments, t)
		}
	}
	for _, t := range j.h.VotesFrom {
		note(t)
	}
	var here []*Fault
	for i := range j.h.Faults {
		f := &j.h.Faults[i]
		if !f.during(from, until) || j.brief(i) {
			continue
		}
		here = append(here, f)
		note(f.From)
		note(f.until())
	}
	slices.Sort(moments)
	for i := range moments[1:] {
		at, next := moments[i], moments[i+1]
		if next == at {
			continue
		}
		there := slices.DeleteFunc(slices.Clone(nodes), func(n string) bool { return j.h.VotesFrom[n] > at })
		votes := len(there)
		if j.rules.Voters > 0 {
			votes = min(votes, j.rules.Voters)
		}
		span(at, next, votes > 0 && 2*hurt(there, here, at, next) >= votes)
	}
}

// voters are all that may vote at some time: who is in a map, or who is listened to if
// there is none, and gateways.
func (j *judge) voters() []string {
	nodes := make(map[string]bool)
	for i := range j.maps {
		for _, node := range j.maps[i].Owners {
			nodes[node] = true
		}
	}
	delete(nodes, "")
	if len(nodes) == 0 {
		for _, node := range j.rules.Targets {
			nodes[node] = true
		}
	}
	for _, node := range j.rules.Gateways {
		nodes[node] = true
	}
	return slices.Collect(maps.Keys(nodes))
}

// hurt is to how many of the nodes one of the faults was done during all of a time.
func hurt(nodes []string, faults []*Fault, from, until int64) int {
	n := 0
	for _, node := range nodes {
		if slices.ContainsFunc(faults, func(f *Fault) bool {
			return f.touches(node) && f.From <= from && until <= f.until()
		}) {
			n++
		}
	}
	return n
}
