package history

// runChecker checks the runs in apps: that a client has sent their requests, and that their headers
// are correct.
type runChecker struct {
	rules  *Rules
	report *Report
	runs   *runIndex
	// ingressNodes contains the node that received the last attempt of each request, by request ID.
	ingressNodes map[string]string
}

// check checks the headers of each run, and the runs of requests whose responses are not part of
// this history.
func (rn *runChecker) check(runs []Run) {
	for id, runs := range rn.runs.byRequest {
		if _, hasResponse := rn.ingressNodes[id]; !hasResponse {
			rn.checkOtherRuns(id, runs)
		}
	}
	for i := range runs {
		rn.checkHeaders(&runs[i])
	}
}

// checkOtherRuns checks the runs of a request without a response in this history. Such a request must be
// in Rules.OtherRequests.
func (rn *runChecker) checkOtherRuns(id string, runs []Run) {
	wasDenied, isKnown := rn.rules.OtherRequests[id]
	switch {
	case !isKnown:
		rn.report.addViolation(UnknownRun, "%s ran %s %q, key %q", runs[0].App, runs[0].Method, id, runs[0].Key)
	case wasDenied:
		rn.report.addViolation(DeniedRun, "%s %s got 503 but ran on %s (epoch %d)", runs[0].Method, id, runs[0].App, runs[0].Epoch)
	}
	checkSingleRun(rn.report, runs) // A request may have run again since its response was checked.
}

// checkHeaders checks the Shardway headers that the app received for a run.
func (rn *runChecker) checkHeaders(run *Run) {
	report := rn.report
	if run.Epoch == 0 || run.Key == "" {
		report.addViolation(BadHeader, "%s ran %s with key %q and epoch %d", run.App, run.ID, run.Key, run.Epoch)
	}
	if run.Node != nodeOf(run.App) {
		report.addViolation(BadHeader, "%s ran %s for node %q", run.App, run.ID, run.Node)
	}
	rn.checkService(run)
	if n := rn.rules.Shards; n > 0 {
		if want := ShardOf(run.Key, n, rn.rules.Services); run.Shard != want {
			report.addViolation(BadHeader, "key %q ran in shard %d, want %d", run.Key, run.Shard, want)
		}
	}
}
