package history

// checkAttempts checks the attempts that received no response. A load balancer tries the next node
// if no process listens, or if an idle connection is closed before the first byte of the response.
// Its clients do not notice such an attempt, but it is permitted only for these reasons:
//   - No process listens from the time of the SIGTERM or the death of the process until
//     Rules.MaxStartTime after its next start.
//   - An idle connection is closed under a request only if the process dies meanwhile.
//
// A process that was asked to terminate responds first, except to long polls.
func (c *checker) checkAttempts(resp *Response) {
	report := c.report
	if len(resp.Attempts) > 1 {
		report.RetriedRequests++
	}
	for i := range resp.Attempts {
		attempt := &resp.Attempts[i]
		if i == len(resp.Attempts)-1 && resp.Status != 0 {
			return
		}
		node := c.rules.node(attempt.Target)
		switch {
		case attempt.Refused && c.mayBeDown(node, attempt):
			report.RefusedAttempts++
		case attempt.Refused:
			report.addViolation(NotListening, "%s %s, key %q: no process listened at %s, which should have been running", resp.Method, resp.ID, resp.Key, node)
		case attempt.Reused && c.diedDuring(node, attempt):
			report.BrokenAttempts++
		case attempt.Reused && c.isLongPoll(resp, attempt) && c.mayBeDown(node, attempt):
			report.BrokenAttempts++
		case attempt.Reused && i < len(resp.Attempts)-1:
			report.addViolation(ClosedIdle, "%s %s, key %q: %s closed an idle connection under the request and had not died: %s", resp.Method, resp.ID, resp.Key, node, attempt.Err)
		}
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
		if fault.Node == node && (fault.ExitedBy != 0 && fault.Kind != AppDown || fault.Kind == Terminated) && fault.From <= attempt.Done && attempt.Sent <= addDuration(fault.end(), int64(c.rules.MaxStartTime)) {
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
