//go:build linux

package cluster

import (
	"fmt"
	"slices"
	"testing"

	"shardway/e2e/history"
)

// Judge checks all that happened in the cluster since its start: the answers
// that were not judged yet, and every run. It fails the test with what it found.
func (c *Cluster) Judge(tb testing.TB, excuse func(*history.Answer) string) *history.Report {
	tb.Helper()
	known := make(map[string]bool, len(c.asked)+c.judged)
	for _, id := range c.asked {
		known[id] = true
	}
	for _, a := range c.answers[:c.judged] {
		known[a.ID] = true
	}
	r := history.Check(history.History{Answers: c.answers[c.judged:], Runs: c.Runs(tb), Stops: c.stops},
		history.Rules{Shards: c.o.Shards, Excuse: excuse, Known: known, Fence: c.fence()})
	c.judged = len(c.answers)
	if err := r.Err(); err != nil {
		tb.Error(err)
	} else {
		tb.Log(r)
	}
	return r
}

// fence is the --fence of the nodes.
func (c *Cluster) fence() string {
	if i := slices.Index(c.o.Flags, "--fence"); i >= 0 {
		return c.o.Flags[i+1]
	}
	return "lease"
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
