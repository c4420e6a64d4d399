package history

// checkAttempts checks the attempts that received no response. A load balancer tries the next node
// if no process listens, or if an idle connection is closed before the first byte of the response.
// Its clients do not notice such an attempt, but it is permitted only for these reasons:
//   - No process listens from the time of the SIGTERM or the death of the process until
//     Rules.MaxStartTime after its next start.
//   - An idle connection is closed under a request only if the process dies in the meantime.
//
// A process that was asked to terminate responds first, except to long polls.
func (c *checker) checkAttempts(resp *Response) {
	if len(resp.Attempts) > 1 {
		c.report.RetriedRequests++
	}
	last := len(resp.Attempts) - 1
	for i := range resp.Attempts {
		attempt := &resp.Attempts[i]
		gotResponse := i == last && resp.Status != 0
		switch {
		case gotResponse:
			return
		case attempt.Refused:
			c.checkRefusedAttempt(resp, attempt)
		case attempt.Reused:
			c.checkBrokenAttempt(resp, attempt, i < last)
		}
	}
}

// checkRefusedAttempt checks an attempt whose target had no listening process.
func (c *checker) checkRefusedAttempt(resp *Response, attempt *Attempt) {
	node := c.rules.node(attempt.Target)
	if c.mayBeDown(node, attempt) {
		c.report.RefusedAttempts++
		return
	}
	c.report.addViolation(NotListening, "%s %s, key %q: no process listened at %s, which should have been running", resp.Method, resp.ID, resp.Key, node)
}

// checkBrokenAttempt checks an attempt whose reused connection was closed before the response. It
// reports a violation only if the client has sent the request again. Otherwise checkResponse checks
// the request as a request without a response.
func (c *checker) checkBrokenAttempt(resp *Response, attempt *Attempt, wasRetried bool) {
	node := c.rules.node(attempt.Target)
	longPollEnded := c.isLongPoll(resp, attempt) && c.mayBeDown(node, attempt)
	switch {
	case longPollEnded || c.diedDuring(node, attempt):
		c.report.BrokenAttempts++
	case wasRetried:
		c.report.addViolation(ClosedIdle, "%s %s, key %q: %s closed an idle connection under the request and had not died: %s", resp.Method, resp.ID, resp.Key, node, attempt.Err)
	}
}

// isLongPoll reports whether a safe request had waited for its response for at least DrainTimeout.
// A terminating node then closes the connection, and the client sends the request to another node.
func (c *checker) isLongPoll(resp *Response, attempt *Attempt) bool {
	return resp.Safe() && attempt.Done-attempt.Sent >= c.rules.shortestByAnyClock(c.rules.DrainTimeout)
}

// mayBeDown reports whether the node may have had no listening process at some time of an
// attempt.
func (c *checker) mayBeDown(node string, attempt *Attempt) bool {
	for i := range c.history.Faults {
		fault := &c.history.Faults[i]
		nodeExited := fault.ExitedBy != 0 && fault.Kind != AppDown
		closesListener := nodeExited || fault.Kind == Terminated
		if fault.Node == node && closesListener && fault.overlapsExtended(attempt.Sent, attempt.Done, c.rules.MaxStartTime) {
			return true
		}
	}
	return false
}

// diedDuring reports whether the process of the node may have died, and so lost its
// connections, during an attempt.
func (c *checker) diedDuring(node string, attempt *Attempt) bool {
	for i := range c.history.Faults {
		fault := &c.history.Faults[i]
		if fault.isCrash() && fault.Node == node && fault.From <= attempt.Done && attempt.Sent <= fault.ExitedBy {
			return true
		}
	}
	return false
}
