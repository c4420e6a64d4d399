package history

// checkAttempts checks the attempts that received no response. A load balancer tries the
// next node if no process listens, or if an idle connection is closed before the first
// byte of the response. Clients do not notice that, so it must be rare, and each case
// needs a reason:
//   - No process listens from the time of the SIGTERM or the death of the process until
//     Rules.MaxStartTime after its next start.
//   - An idle connection is closed under a request only if the process dies meanwhile.
//
// A process that was asked to terminate responds first, except to long polls.
func (c *checker) checkAttempts(resp *Response) {
	r := c.report
	if len(resp.Attempts) > 1 {
		r.Reattempts++
	}
	for i := range resp.Attempts {
		t := &resp.Attempts[i]
		if i == len(resp.Attempts)-1 && resp.Status != 0 {
			return
		}
		node := c.rules.node(t.Target)
		switch {
		case t.Refused && c.mayBeDown(node, t):
			r.Refused++
		case t.Refused:
			r.add(NotListening, "%s %s, key %q: no process listened at %s, which should have been running", resp.Method, resp.ID, resp.Key, node)
		case t.Reused && c.diedDuring(node, t):
			r.Broken++
		case t.Reused && c.isLongPoll(resp, t) && c.mayBeDown(node, t):
			r.Broken++
		case t.Reused && i < len(resp.Attempts)-1:
			r.add(ClosedIdle, "%s %s, key %q: %s closed an idle connection under the request and had not died: %s", resp.Method, resp.ID, resp.Key, node, t.Err)
		}
	}
}

// isLongPoll reports whether a safe request had waited for DrainTimeout for its response.
// A terminating node then closes the connection, and the client asks another node.
func (c *checker) isLongPoll(resp *Response, t *Attempt) bool {
	return resp.Safe() && t.Done-t.Sent >= c.rules.shortestByAnyClock(c.rules.DrainTimeout)
}

// mayBeDown reports whether the node may have had no listening process at some time of an
// attempt.
func (c *checker) mayBeDown(node string, t *Attempt) bool {
	for i := range c.history.Faults {
		f := &c.history.Faults[i]
		if f.Node == node && (f.ExitedBy != 0 && f.Kind != AppDown || f.Kind == Terminated) && f.From <= t.Done && t.Sent <= addDuration(f.end(), int64(c.rules.MaxStartTime)) {
			return true
		}
	}
	return false
}

// diedDuring reports whether the process of the node may have died, and so lost its
// connections, during an attempt.
func (c *checker) diedDuring(node string, t *Attempt) bool {
	for i := range c.history.Faults {
		f := &c.history.Faults[i]
		if f.isCrash() && f.Node == node && f.From <= t.Done && t.Sent <= f.ExitedBy {
			return true
		}
	}
	return false
}
