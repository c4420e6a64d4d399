//go:build linux

package cluster

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"shardway/e2e/kit/history"
)

// Judge checks all that happened in the cluster since its start: the answers
// that were not judged yet, and every run. It fails the test with what it found.
func (c *Cluster) Judge(tb testing.TB) *history.Report {
	tb.Helper()
	rules := c.Rules()
	rules.Known = make(map[string]bool, len(c.asked)+c.judged)
	maps.Copy(rules.Known, c.asked)
	for i := range c.answers[:c.judged] {
		rules.Known[c.answers[i].ID] = c.answers[i].Denied()
	}
	h := history.History{Responses: c.answers[c.judged:], Runs: c.Runs(tb), Maps: c.MapsSince(c.judgedMap), Faults: c.Faults(), Waits: c.Waits(), Drains: c.drains}
	r := history.Check(h, rules)
	c.judged = len(c.answers)
	if n := len(h.Maps); n > 0 {
		c.judgedMap = h.Maps[n-1].Epoch
	}
	if err := r.Err(); err != nil {
		tb.Error(err)
	} else {
		tb.Log(r)
	}
	return r
}

// wake is how long a node that goes on may take to find out that it has no lease any more,
// and for that long to begin what it had admitted before it was stopped.
const wake = 100 * time.Millisecond

// Rules are what is known of the cluster.
func (c *Cluster) Rules() history.Rules {
	rules := history.Rules{
		Wake: wake, Voters: maxVoters,
		Shards: c.o.Shards, Takeover: c.flag("--takeover", "lease"), Targets: make(map[string]string),
		Lease: c.span("--lease"), DeadAfter: c.span("--dead-after"), DrainTimeout: c.span("--drain-timeout"), StreamGrace: c.span("--stream-grace"), QueueWait: c.span("--queue-wait"),
	}
	for _, n := range c.nodes {
		rules.Targets[n.Addr] = n.ID
	}
	return rules
}

// flag is what all nodes are given for a flag, or its default.
func (c *Cluster) flag(name, otherwise string) string {
	if i := slices.Index(c.o.Flags, name); i >= 0 {
		return c.o.Flags[i+1]
	}
	return otherwise
}

// span is the time that all nodes are given for a flag, 0 for their default.
func (c *Cluster) span(name string) time.Duration {
	d, _ := time.ParseDuration(c.flag(name, "0s"))
	return d
}

// Runs reads what the apps recorded. It waits for the end of runs whose answer
// the client has already.
func (c *Cluster) Runs(tb testing.TB) []history.Run {
	tb.Helper()
	answered := make(map[string]bool, len(c.answers))
	for _, a := range c.answers {
		answered[a.ID] = a.OK()
	}
	var all []history.Run
	Await(tb, "answered runs are recorded", func() error {
		all = c.Recorded(tb)
		if i := slices.IndexFunc(all, func(r history.Run) bool { return r.End == 0 && answered[r.ID] }); i >= 0 && !c.doubled(all, i) {
			return fmt.Errorf("%s still runs %s", all[i].App, all[i].ID)
		}
		return nil
	})
	return all
}

// Recorded reads what the apps recorded until now.
func (c *Cluster) Recorded(tb testing.TB) []history.Run {
	tb.Helper()
	var all []history.Run
	for _, n := range c.nodes {
		runs, err := n.App.runs()
		if err != nil {
			tb.Fatal(err)
		}
		all = append(all, runs...)
	}
	return all
}

// doubled tells whether the request of run i ran elsewhere too: then its answer
// may have come from there, and this run may go on.
func (c *Cluster) doubled(runs []history.Run, i int) bool {
	n := 0
	for _, r := range runs {
		if r.ID == runs[i].ID {
			n++
		}
	}
	return n > 1
}
