//go:build linux

package cluster

import (
	"fmt"
	"maps"
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
	observed := history.History{
		Responses: c.responses[c.checkedResponses:], Runs: c.AwaitRuns(tb), Maps: c.MapsSince(c.checkedEpoch),
		Faults: c.Faults(), CPUWaits: c.CPUWaits(), Drains: c.drains,
	}
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

// wakeTime is how long a node may need after a pause until it detects that it has no lease. During
// that time it may start requests that it had admitted before the pause.
const wakeTime = 100 * time.Millisecond

// Rules returns the rules that history.Check applies to this cluster.
func (c *Cluster) Rules() history.Rules {
	rules := history.Rules{
		WakeTime: wakeTime, Voters: maxVoters,
		Shards: c.opts.Shards, Takeover: c.commonFlag("--takeover", "lease"), Targets: make(map[string]string),
		Lease: c.commonDuration("--lease"), DeadAfter: c.commonDuration("--dead-after"), QueueWait: c.commonDuration("--queue-wait"),
		DrainTimeout: c.commonDuration("--drain-timeout"), StreamGrace: c.commonDuration("--stream-grace"),
	}
	rules.Services, rules.ServiceOfApp = c.ServiceRanges(), make(map[string]string)
	for _, node := range c.nodes {
		rules.Targets[node.Addr] = node.ID
		for _, app := range node.apps() {
			rules.ServiceOfApp[app.name] = app.Service
		}
	}
	return rules
}

// commonFlag returns the value of a flag that Options.Flags sets for all nodes, or defaultValue if
// it is not set. If the flag is set several times, the last one applies, as for the nodes.
func (c *Cluster) commonFlag(name, defaultValue string) string {
	value := defaultValue
	for i, flag := range c.opts.Flags {
		if flag == name {
			value = c.opts.Flags[i+1]
		}
	}
	return value
}

// commonDuration returns the value of a duration flag of all nodes. Zero means that the flag is not
// set, so nodes use their default.
func (c *Cluster) commonDuration(name string) time.Duration {
	duration, _ := time.ParseDuration(c.commonFlag(name, "0s"))
	return duration
}

// AwaitRuns waits until every run of a successful request has recorded its end, and returns all runs.
// The wait is necessary because an app may record the end after the client has received the response.
// Runs of failed requests may have no end: the app may have been killed.
func (c *Cluster) AwaitRuns(tb testing.TB) []history.Run {
	tb.Helper()
	succeeded := make(map[string]bool, len(c.responses))
	for _, resp := range c.responses {
		succeeded[resp.ID] = resp.OK()
	}
	var all []history.Run
	Await(tb, "runs of successful requests have ended", func() error {
		all = c.RecordedRuns(tb)
		if run := findUnfinished(all, succeeded); run != nil {
			return fmt.Errorf("app %s has not recorded the end of request %s", run.App, run.ID)
		}
		return nil
	})
	return all
}

// RecordedRuns returns all runs that the apps have recorded so far.
func (c *Cluster) RecordedRuns(tb testing.TB) []history.Run {
	tb.Helper()
	var all []history.Run
	for _, node := range c.nodes {
		for _, app := range node.apps() {
			runs, err := app.runs()
			if err != nil {
				tb.Fatal(err)
			}
			for _, run := range runs {
				all = append(all, run.CountInCluster(c.ServiceRanges()))
			}
		}
	}
	return all
}

// findUnfinished returns a run without an end whose request succeeded and has no other run; nil if
// there is none. succeeded contains the requests that succeeded.
func findUnfinished(runs []history.Run, succeeded map[string]bool) *history.Run {
	for i := range runs {
		if runs[i].End == 0 && succeeded[runs[i].ID] && !hasOtherRun(runs, i) {
			return &runs[i]
		}
	}
	return nil
}

// hasOtherRun reports whether the request of run i was executed more than once. The response may then
// come from the other run, and run i may never end.
func hasOtherRun(runs []history.Run, i int) bool {
	count := 0
	for _, run := range runs {
		if run.ID == runs[i].ID {
			count++
		}
	}
	return count > 1
}
