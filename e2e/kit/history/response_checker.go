package history

import (
	"slices"
	"strings"
	"time"
)

// responseChecker checks the responses that clients received, and the attempts before them.
type responseChecker struct {
	rules  *Rules
	report *Report
	runs   *runIndex
	faults *faultTimeline
	// excuses determines whether a request without a response of its app has an excuse.
	excuses *failureExcuses
	maps    mapTimeline
	// ownership has checked the runs.
	ownership *ownershipChecker
}

// check checks each request, and that no request ID has two responses.
func (rc *responseChecker) check(responses []Response) {
	seen := make(map[string]bool, len(responses))
	for i := range responses {
		resp := &responses[i]
		if seen[resp.ID] {
			rc.report.addViolation(SecondResponse, "%s %s has two responses", resp.Method, resp.ID)
		}
		seen[resp.ID] = true
		rc.checkResponse(resp)
	}
}

// checkResponse checks one request: the response that its client received, and its runs in apps.
func (rc *responseChecker) checkResponse(resp *Response) {
	report, runs := rc.report, rc.runs.byRequest[resp.ID]
	rc.checkAttempts(resp)
	if resp.Extra > 0 {
		report.addViolation(SecondResponse, "%s %s: %d bytes after the response", resp.Method, resp.ID, resp.Extra)
	}
	checkSingleRun(report, runs)
	if resp.Denied() && len(runs) > 0 {
		report.addViolation(DeniedRun, "%s %s got 503 %s but ran on %s (epoch %d)", resp.Method, resp.ID, resp.Error, runs[0].App, runs[0].Epoch)
		return
	}
	if resp.OK() {
		report.Answered++
		rc.checkOrigin(resp, runs)
		return
	}
	if resp.Fenced() {
		rc.checkOrigin(resp, runs)
		permitsFence := func(run Run) bool { return run.App == resp.App && rc.ownership.permitsFence(run, rc.maps) }
		if rc.ownership.excusedOverlaps[resp.ID] || slices.ContainsFunc(runs, permitsFence) {
			report.FencedRequests++
			return
		}
	}
	rc.checkFailure(resp, runs)
}

// checkFailure reports a request without a complete response of its app, unless the failure has an excuse.
func (rc *responseChecker) checkFailure(resp *Response, runs []Run) {
	reason, expiredAt := rc.excuses.reason(resp)
	if reason != "" {
		rc.report.ExcusedFailures[reason]++
		return
	}
	kind, delay := Failed, ""
	switch {
	case expiredAt != 0:
		kind, delay = FailedLate, ", "+time.Duration(resp.DoneAt()-expiredAt).String()+" after it should have worked again"
	case resp.Status == 0:
		kind = Lost
	case resp.Truncated:
		kind = TruncatedResponse
	}
	rc.report.addViolation(kind, "%s %s, key %q at %s after %v: %d %s%s%s", resp.Method, resp.ID, resp.Key, resp.lastAttempt().Target,
		time.Duration(resp.DoneAt()-resp.SentAt()), resp.Status, strings.TrimSpace(resp.errorText()), delay, rc.faults.describeContext(resp, runs))
}

// checkOrigin checks that the response of an app belongs to a run of this request, and that it came
// from the app of that run.
func (rc *responseChecker) checkOrigin(resp *Response, runs []Run) {
	report := rc.report
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

// checkSingleRun checks that an unsafe request ran only once.
func checkSingleRun(report *Report, runs []Run) {
	if len(runs) > 1 && !safe(runs[0].Method) {
		report.addViolation(DoubleRun, "%s %s ran on %s (epoch %d) and on %s (epoch %d)",
			runs[0].Method, runs[0].ID, runs[0].App, runs[0].Epoch, runs[1].App, runs[1].Epoch)
	}
}

// checkAttempts checks the attempts that received no response. A load balancer tries the next node
// if no process listens, or if a reused connection is closed before the first byte of the response.
// Clients do not notice such attempts, but each one must have one of these causes:
//   - No process listens from the time of the SIGTERM or the death of the process until
//     Rules.MaxStartTime after its next start.
//   - A reused connection is closed while a request is being sent on it only if the process dies in the
//     meantime.
//
// A process that was asked to terminate responds first, except to long polls.
func (rc *responseChecker) checkAttempts(resp *Response) {
	if len(resp.Attempts) > 1 {
		rc.report.RetriedRequests++
	}
	last := len(resp.Attempts) - 1
	for i := range resp.Attempts {
		attempt := &resp.Attempts[i]
		gotResponse := i == last && resp.Status != 0
		switch {
		case gotResponse:
			return
		case attempt.Refused:
			rc.checkRefusedAttempt(resp, attempt)
		case attempt.Reused:
			rc.checkBrokenAttempt(resp, attempt, i < last)
		}
	}
}

// checkRefusedAttempt checks an attempt whose target had no listening process.
func (rc *responseChecker) checkRefusedAttempt(resp *Response, attempt *Attempt) {
	node := rc.rules.node(attempt.Target)
	if rc.faults.mayBeDown(node, attempt) {
		rc.report.RefusedAttempts++
		return
	}
	rc.report.addViolation(NotListening, "%s %s, key %q: no process listened at %s, which should have been running", resp.Method, resp.ID, resp.Key, node)
}

// checkBrokenAttempt checks an attempt whose reused connection was closed before the response. It
// reports a violation only if the client has sent the request again. Otherwise checkResponse checks
// the request as a request without a response.
func (rc *responseChecker) checkBrokenAttempt(resp *Response, attempt *Attempt, wasRetried bool) {
	node := rc.rules.node(attempt.Target)
	longPollEnded := rc.isLongPoll(resp, attempt) && rc.faults.mayBeDown(node, attempt)
	switch {
	case longPollEnded || rc.faults.diedDuring(node, attempt):
		rc.report.BrokenAttempts++
	case wasRetried:
		rc.report.addViolation(ClosedIdle, "%s %s, key %q: %s closed a reused connection %v after the request was sent, and had not died: %s",
			resp.Method, resp.ID, resp.Key, node, time.Duration(attempt.Done-attempt.Sent).Round(time.Microsecond), attempt.Err)
	}
}

// isLongPoll reports whether a safe request had waited for its response for at least DrainTimeout.
// A terminating node then closes the connection, and the client sends the request to another node.
func (rc *responseChecker) isLongPoll(resp *Response, attempt *Attempt) bool {
	return resp.Safe() && attempt.Done-attempt.Sent >= rc.rules.shortestByAnyClock(rc.rules.DrainTimeout)
}
