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

// Check checks everything that happened in the cluster since its start: the responses
// that are not checked yet, and every run. It fails the test if it finds a violation.
func (c *Cluster) Check(tb testing.TB) *history.Report {
	tb.Helper()
	rules := c.Rules()
	rules.OtherRequests = make(map[string]bool, len(c.testRequests)+c.checkedResponses)
	maps.Copy(rules.OtherRequests, c.testRequests)
	for i := range c.responses[:c.checkedResponses] {
		rules.OtherRequests[c.responses[i].ID] = c.responses[i].Denied()
	}
	observed := history.History{Responses: c.responses[c.checkedResponses:], Runs: c.AwaitRuns(tb), Maps: c.MapsSince(c.checkedEpoch), Faults: c.Faults(), CPUWaits: c.CPUWaits(), Drains: c.drains}
	report := history.Check(observed, rules)
	c.checkedResponses = len(c.responses)
	if n := len(observed.Maps); n > 0 {
		c.checkedEpoch = observed.Maps[n-1].Epoch
	}
	if err := report.Err(); err != nil {
		tb.Error(err)
	} else {
		tb.Log(report)
	}
	return report
}

// wakeTime is how long a node may take after a pause to detect that it has no lease. For that
// time it may start requests that it had admitted before the pause.
const wakeTime = 100 * time.Millisecond

// Rules returns the rules for this cluster.
func (c *Cluster) Rules() history.Rules {
	rules := history.Rules{
		WakeTime: wakeTime, Voters: maxVoters,
		Shards: c.opts.Shards, Takeover: c.commonFlag("--takeover", "lease"), Targets: make(map[string]string),
		Lease: c.commonDuration("--lease"), DeadAfter: c.commonDuration("--dead-after"), DrainTimeout: c.commonDuration("--drain-timeout"), StreamGrace: c.commonDuration("--stream-grace"), QueueWait: c.commonDuration("--queue-wait"),
	}
	for _, node := range c.nodes {
		rules.Targets[node.Addr] = node.ID
	}
	return rules
}

// commonFlag returns the value of a flag of all nodes, or a default.
func (c *Cluster) commonFlag(name, defaultValue string) string {
	if i := slices.Index(c.opts.Flags, name); i >= 0 {
		return c.opts.Flags[i+1]
	}
	return defaultValue
}

// commonDuration returns the duration flag of all nodes, or 0 for their default.
func (c *Cluster) commonDuration(name string) time.Duration {
	d, _ := time.ParseDuration(c.commonFlag(name, "0s"))
	return d
}

// AwaitRuns reads the records of the apps. It waits for the end of runs whose client has a
// response.
func (c *Cluster) AwaitRuns(tb testing.TB) []history.Run {
	tb.Helper()
	succeeded := make(map[string]bool, len(c.responses))
	for _, resp := range c.responses {
		succeeded[resp.ID] = resp.OK()
	}
	var all []history.Run
	Await(tb, "runs with a response have ended", func() error {
		all = c.RecordedRuns(tb)
		if i := slices.IndexFunc(all, func(run history.Run) bool { return run.End == 0 && succeeded[run.ID] }); i >= 0 && !c.ranTwice(all, i) {
			return fmt.Errorf("%s still runs %s", all[i].App, all[i].ID)
		}
		return nil
	})
	return all
}

// RecordedRuns reads the current records of the apps.
func (c *Cluster) RecordedRuns(tb testing.TB) []history.Run {
	tb.Helper()
	var all []history.Run
	for _, node := range c.nodes {
		runs, err := node.App.runs()
		if err != nil {
			tb.Fatal(err)
		}
		all = append(all, runs...)
	}
	return all
}

// ranTwice reports whether the request of run i has another run. Then its response may
// belong to the other run, and this one may continue.
func (c *Cluster) ranTwice(runs []history.Run, i int) bool {
	n := 0
	for _, run := range runs {
		if run.ID == runs[i].ID {
			n++
		}
	}
	return n > 1
}
