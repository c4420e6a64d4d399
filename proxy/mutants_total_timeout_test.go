package proxy_test

import "slices"

// mutantsOfTotalTimeouts returns the mutants of the rules for the total time of requests.
func mutantsOfTotalTimeouts() []mutant {
	return []mutant{
		{
			rule: "a request that takes too long is cancelled", found: "TestTotalTimeoutCancelsRequest",
			edits: in("proxy.sweeper.sweepTotalTimeout", "now <= deadline ||", "PLANTED || now <= deadline ||"),
		},
		{
			rule: "the timeout of a long prefix replaces that of a shorter one", found: "TestTotalTimeoutCancelsRequest",
			edits: in("proxy.routeTable.inherit", "route.TotalTimeout != 0 && !hasTimeout", "route.TotalTimeout != 0 && (PLANTED || !hasTimeout)"),
		},
		{
			rule: "an event stream has no total timeout", found: "TestTotalTimeoutExemptsEventStreams",
			edits: slices.Concat(
				in("proxy.sweeper.sweepTotalTimeout", "|| current.Has(exempt) {\n", "|| current.Has(exempt) && !PLANTED {\n"),
				in("proxy.sweeper.sweepTotalTimeout", "&& !latest.Has(exempt)\n", "&& (PLANTED || !latest.Has(exempt))\n"),
				in("proxy.requestState.endTotalTimeout", "state.totalDeadline.Load() != 0 {", "state.totalDeadline.Load() != 0 && !PLANTED {"),
			),
		},
		{
			rule: "the total timeout includes the wait for an owner", found: "TestTotalTimeoutIncludesUploadAndQueue",
			edits: in("proxy.requestWait.limitByTotalTimeout", "limit.Before(deadline)", "!PLANTED && limit.Before(deadline)"),
		},
		{
			rule: "the total timeout includes a body that is buffered first", found: "TestTotalTimeoutIncludesSmallBody",
			edits: in("proxy.sweeper.sweepBuffering", "if isOver() {", "if isOver() && !PLANTED {"),
		},
		{
			rule: "the connection closes if the rest of the body is not read", found: "TestTotalTimeoutIncludesSmallBody",
			edits: in("proxy.reply.canDrainBody", "!reply.body.Unreadable &&", "(PLANTED || !reply.body.Unreadable) &&"),
		},
		{
			rule: "a request that took too long is not sent again", found: "TestTotalTimeoutCancelsRequest",
			edits: in("proxy.retrier.decideAfterBreak", "case cancelCause == cause.TotalTimeout:", "case !PLANTED && cancelCause == cause.TotalTimeout:"),
		},
		{
			rule: "the next request has no timeout of an earlier one", found: "TestTotalTimeoutEndsWithRequest",
			edits: in("proxy.client.startTotalTimeout", "	c.endTotalTimeout()\n", "	if !PLANTED {\n		c.endTotalTimeout()\n	}\n"),
		},
		{
			rule: "a connection to the app has the idle timeout of its request", found: "TestRouteHasOwnUpstreamIdleTimeout",
			edits: in("proxy.Settings.setIdleTimeout", "timeouts.Body = max(", "timeouts.Body = max(timeouts.Body*map[bool]time.Duration{true: 1}[PLANTED], "),
		},
	}
}
