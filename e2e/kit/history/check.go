package history

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cespare/xxhash/v2"
)

// History contains all observations of a test, with the times of one clock. The order
// within its slices has no meaning.
type History struct {
	Responses  []Response
	Followers  []Follower
	Runs       []Run
	Admissions []Admission
	// Maps are the committed shard maps that were observed.
	Maps []Map
	// Faults are the faults that the test injected.
	Faults []Fault
	// CPUWaits are the periods in which threads of nodes waited for a processor.
	CPUWaits []CPUWait
	// Drains and Cordons are the requests of operators. A drain is an excuse for a map
	// without that node. Neither of them excuses anything else.
	Drains  []Drain
	Cordons []Cordon
	// VoterSince contains, for each node that joined a running cluster, the time at which it got
	// its vote. Before that time, the node does not count for a majority. A node without an entry
	// always counts.
	VoterSince map[string]int64
}

// checker is the state of Check for one history.
type checker struct {
	history History
	rules   Rules
	report  *Report

	maps          []Map            // in ascending order of epoch
	runsByRequest map[string][]Run // by request ID
	runsByShard   map[uint32][]Run // by shard, in ascending order of Start, without Admissions
	// leaseTimes are the times at which each node certainly held a lease, because it ran or
	// admitted a request. They are in ascending order.
	leaseTimes map[string][]int64
	// ingressNodes contains the node that received the last attempt of each request, by request ID.
	ingressNodes map[string]string
	// canCauseFailure contains, for each fault, whether it lasted long enough to make a request
	// fail (checker.isTooBrief).
	canCauseFailure []bool
	// excusedOverlaps contains the IDs of requests that ran at the same time as a run of another
	// owner for an excused reason.
	excusedOverlaps map[string]bool
}

// Check checks the observations of a test against the rules.
func Check(history History, rules Rules) *Report {
	c := newChecker(history, rules)
	c.indexRuns()
	c.indexIngressNodes()
	c.classifyFaults()
	c.sumStalledTime()

	c.checkOwnership()
	c.checkExclusions()
	c.checkPlacement()
	c.checkRestartGrace()
	c.checkResponses()
	c.checkFollowers()
	c.checkRuns()
	return c.report
}

// newChecker returns a checker with an empty report and empty lookup tables.
func newChecker(history History, rules Rules) *checker {
	report := &Report{
		Requests: len(history.Responses), Runs: len(history.Runs),
		ExcusedFailures: make(map[string]int), OverlapsByShard: make(map[uint32]int),
	}
	return &checker{
		history: history, rules: rules.withDefaults(), report: report, maps: sortedByEpoch(history.Maps),
		runsByRequest: make(map[string][]Run, len(history.Responses)), runsByShard: make(map[uint32][]Run), leaseTimes: make(map[string][]int64),
		ingressNodes: make(map[string]string, len(history.Responses)), excusedOverlaps: make(map[string]bool),
	}
}

// compareStart orders runs by their start, and runs with the same start by their epoch.
func compareStart(a, b Run) int {
	return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(a.Epoch, b.Epoch))
}

// indexRuns fills runsByRequest, runsByShard and leaseTimes.
func (c *checker) indexRuns() {
	for _, run := range c.history.Runs {
		c.runsByRequest[run.ID] = append(c.runsByRequest[run.ID], run)
		c.runsByShard[run.Shard] = append(c.runsByShard[run.Shard], run)
		c.leaseTimes[run.App] = append(c.leaseTimes[run.App], run.Start)
	}
	for _, admission := range c.history.Admissions {
		c.leaseTimes[admission.Node] = append(c.leaseTimes[admission.Node], admission.From, admission.Until)
	}
	for _, runs := range c.runsByShard {
		slices.SortFunc(runs, compareStart)
	}
	for _, times := range c.leaseTimes {
		slices.Sort(times)
	}
	c.report.Shards = len(c.runsByShard)
}

// indexIngressNodes fills ingressNodes.
func (c *checker) indexIngressNodes() {
	for i := range c.history.Responses {
		resp := &c.history.Responses[i]
		c.ingressNodes[resp.ID] = c.rules.node(resp.lastAttempt().Target)
	}
	for _, follower := range c.history.Followers {
		for _, conn := range follower.Conns {
			c.ingressNodes[conn.ID] = c.rules.node(conn.Target)
		}
	}
}

// sumStalledTime reports the total duration of the stalls during which requests were in flight.
func (c *checker) sumStalledTime() {
	for i := range c.history.Faults {
		fault := &c.history.Faults[i]
		if fault.Kind != Stalled || c.isTooBrief(i) {
			continue
		}
		isInFlight := func(resp Response) bool { return fault.overlaps(resp.Sent(), resp.Done()) }
		if slices.ContainsFunc(c.history.Responses, isInFlight) {
			c.report.StalledTime += time.Duration(fault.end() - fault.From)
		}
	}
}

// checkOwnership checks the runs of each shard against each other.
func (c *checker) checkOwnership() {
	all := make(map[uint32][]Run, len(c.runsByShard))
	for shard, runs := range c.runsByShard {
		all[shard] = slices.Clone(runs)
	}
	for i := range c.history.Admissions {
		run := c.history.Admissions[i].asRun()
		all[run.Shard] = append(all[run.Shard], run)
	}
	for _, runs := range all {
		shardChecks := &shardChecker{checker: c, runs: runs}
		shardChecks.check()
	}
}

// checkResponses checks each request, and that no request ID has two responses.
func (c *checker) checkResponses() {
	seen := make(map[string]bool, len(c.history.Responses))
	for i := range c.history.Responses {
		resp := &c.history.Responses[i]
		if seen[resp.ID] {
			c.report.addViolation(SecondResponse, "%s %s has two responses", resp.Method, resp.ID)
		}
		seen[resp.ID] = true
		c.checkResponse(resp)
	}
}

// checkRuns checks the headers of each run, and the runs of requests whose responses are not part of
// this history.
func (c *checker) checkRuns() {
	for id, runs := range c.runsByRequest {
		if _, hasResponse := c.ingressNodes[id]; !hasResponse {
			c.checkOtherRuns(id, runs)
		}
	}
	for i := range c.history.Runs {
		c.checkHeaders(&c.history.Runs[i])
	}
}

// checkOtherRuns checks the runs of a request without a response in this history. Such a request must be
// in Rules.OtherRequests.
func (c *checker) checkOtherRuns(id string, runs []Run) {
	wasDenied, isKnown := c.rules.OtherRequests[id]
	switch {
	case !isKnown:
		c.report.addViolation(UnknownRun, "%s ran %s %q, key %q", runs[0].App, runs[0].Method, id, runs[0].Key)
	case wasDenied:
		c.report.addViolation(DeniedRun, "%s %s got 503 but ran on %s (epoch %d)", runs[0].Method, id, runs[0].App, runs[0].Epoch)
	}
	c.checkSingleRun(runs) // A request may have run again since its response was checked.
}

// checkResponse checks one request: the response that its client received, and its runs in apps.
func (c *checker) checkResponse(resp *Response) {
	report, runs := c.report, c.runsByRequest[resp.ID]
	c.checkAttempts(resp)
	if resp.Extra > 0 {
		report.addViolation(SecondResponse, "%s %s: %d bytes after the response", resp.Method, resp.ID, resp.Extra)
	}
	c.checkSingleRun(runs)
	if resp.Denied() && len(runs) > 0 {
		report.addViolation(DeniedRun, "%s %s got 503 %s but ran on %s (epoch %d)", resp.Method, resp.ID, resp.Error, runs[0].App, runs[0].Epoch)
		return
	}
	if resp.OK() {
		report.Answered++
		c.checkOrigin(resp, runs)
		return
	}
	if resp.Fenced() {
		c.checkOrigin(resp, runs)
		if c.excusedOverlaps[resp.ID] {
			report.FencedRequests++
			return
		}
	}
	c.checkFailure(resp, runs)
}

// checkFailure reports a request without a complete response of its app, unless the failure has an excuse.
func (c *checker) checkFailure(resp *Response, runs []Run) {
	reason, expiredAt := c.failureReason(resp)
	if reason != "" {
		c.report.ExcusedFailures[reason]++
		return
	}
	kind, delay := Failed, ""
	switch {
	case expiredAt != 0:
		kind, delay = FailedLate, ", "+time.Duration(resp.Done()-expiredAt).String()+" after it should have worked again"
	case resp.Status == 0:
		kind = Lost
	case resp.Truncated:
		kind = TruncatedResponse
	}
	c.report.addViolation(kind, "%s %s, key %q at %s after %v: %d %s%s%s", resp.Method, resp.ID, resp.Key, resp.lastAttempt().Target,
		time.Duration(resp.Done()-resp.Sent()), resp.Status, strings.TrimSpace(resp.errorText()), delay, c.describeContext(resp, runs))
}

// describeContext returns where a request ran, and which faults were active at that time, as the
// end of a violation text. Both are needed to find the cause of a failure.
func (c *checker) describeContext(resp *Response, runs []Run) string {
	var text strings.Builder
	since := func(at int64) time.Duration { return time.Duration(at - resp.Sent()).Round(time.Millisecond) }
	for _, run := range runs {
		fmt.Fprintf(&text, "; ran on %s (epoch %d) from %v to %v, aborted: %v", run.App, run.Epoch, since(run.Start), since(run.end()), run.Aborted)
	}
	for i := range c.history.Faults {
		if fault := &c.history.Faults[i]; fault.From <= resp.Done() && resp.Sent() <= c.rules.effectsEnd(fault) {
			fmt.Fprintf(&text, "; %s %s%s from %v to %v", fault.Node, fault.Kind, fault.Peer, since(fault.From), since(fault.end()))
		}
	}
	return text.String()
}

// errorText returns the text of the error response, or the error of the last attempt.
func (r *Response) errorText() string {
	switch {
	case r.Status == 0:
		return r.lastAttempt().Err
	case r.Truncated:
		return "truncated: " + r.lastAttempt().Err
	}
	return r.Error + " " + r.Detail
}

// checkOrigin checks that the response of an app belongs to a run of this request, and that it came
// from the app of that run.
func (c *checker) checkOrigin(resp *Response, runs []Run) {
	report := c.report
	if len(runs) == 0 {
		report.addViolation(NoRun, "%s %s got a response from %q with the ID %q", resp.Method, resp.ID, resp.App, resp.EchoID)
		return
	}
	if resp.EchoID != resp.ID {
		report.addViolation(WrongResponse, "%s %s got the response to %q", resp.Method, resp.ID, resp.EchoID)
		return
	}
	if !slices.ContainsFunc(runs, func(run Run) bool { return run.App == resp.App }) {
		report.addViolation(WrongResponse, "%s %s got its response from %q but ran on %q", resp.Method, resp.ID, resp.App, runs[0].App)
	}
}

// checkSingleRun checks that an unsafe request ran only once.
func (c *checker) checkSingleRun(runs []Run) {
	if len(runs) > 1 && !safe(runs[0].Method) {
		c.report.addViolation(DoubleRun, "%s %s ran on %s (epoch %d) and on %s (epoch %d)",
			runs[0].Method, runs[0].ID, runs[0].App, runs[0].Epoch, runs[1].App, runs[1].Epoch)
	}
}

// checkHeaders checks the Shardway headers that the app received for a run.
func (c *checker) checkHeaders(run *Run) {
	report := c.report
	if run.Epoch == 0 || run.Key == "" {
		report.addViolation(BadHeader, "%s ran %s with key %q and epoch %d", run.App, run.ID, run.Key, run.Epoch)
	}
	if run.Node != run.App {
		report.addViolation(BadHeader, "%s ran %s for node %q", run.App, run.ID, run.Node)
	}
	if n := c.rules.Shards; n > 0 {
		if want := shardOf(run.Key, n); run.Shard != want {
			report.addViolation(BadHeader, "key %q ran in shard %d, want %d", run.Key, run.Shard, want)
		}
	}
}

// shardOf returns the shard of a key by the published hash.
func shardOf(key string, shards int) uint32 {
	return uint32(xxhash.Sum64String(key) % uint64(shards))
}
