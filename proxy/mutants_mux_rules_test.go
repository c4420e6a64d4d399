package proxy_test

import "slices"

// mutantsOfMuxRules returns the mutants of the choice between stream and connection, and of idle
// streams. Their edits apply to the text after the edits of mutantsOfMux.
func mutantsOfMuxRules() []mutant {
	return slices.Concat(mutantsOfPathDetector(), []mutant{
		{
			rule: "an idle lane whose trunk takes no more is not used", found: "TestIdleStreamOfDrainingSessionIsNotReused",
			edits: in("proxy/connpool.Pool.GetStream", "conn.Mux.SessionDraining() ||", "conn.Mux.SessionDraining() && !PLANTED ||"),
		},
		{
			rule: "nor one by which something came", found: "TestStreamWithUnsolicitedDataIsNotReused",
			edits: in("proxy/connpool.Pool.GetStream", " !conn.IsAlive()):", " !conn.IsAlive() && !PLANTED):"),
		},
		{
			rule: "who expects to be asked has a connection of its own", found: "TestExpectContinueUsesOwnConn",
			edits: in("proxy.router.fitsStream", " router.req.ExpectsContinue() ||", " router.req.ExpectsContinue() && !PLANTED ||"),
		},
		{
			rule: "and a stream that goes on", found: "TestResumedStreamUsesOwnConn",
			edits: in("proxy.router.fitsStream", " router.exchange.eventStream != nil {", " router.exchange.eventStream != nil && !PLANTED {"),
		},
		{
			rule: "and one like it while it goes on", found: "TestEventStreamsLeaveStreams",
			edits: in("proxy.responseRelay.copyEvents", "	rr.recordSize(attempt, isContinuation, true)", "	rr.recordSize(attempt, isContinuation || PLANTED, true)"),
		},
		{
			rule: "and what takes long", found: "TestSlowResponseLeavesStreams",
			edits: in("proxy.sweeper.sweepLongResponse", "key := c.slowResponse.Swap(0); key != 0 {", "key := c.slowResponse.Swap(0); key != 0 && !PLANTED {"),
		},
		{
			rule: "also when it has ended", found: "TestSlowResponseLeavesStreams",
			edits: in("proxy.responseRelay.copyBody", "rr.recordSize(attempt, isContinuation, tookLong ||", "rr.recordSize(attempt, isContinuation, tookLong && !PLANTED ||"),
		},
		{
			rule: "what lost its trunk leaves the budget to others", found: "TestRetryAfterSessionLossNeedsNoBudget",
			edits: in("proxy.retrier.retryBudgetAllows", "	if sessionFailed && retry", "	if !PLANTED && sessionFailed && retry"),
		},
		{
			rule: "but not what failed alone", found: "TestRetryAfterSessionLossNeedsNoBudget",
			edits: in("proxy.retrier.retryBudgetAllows", "attempt.conn.Mux.SessionDraining()", "(PLANTED || attempt.conn.Mux.SessionDraining())"),
		},
		{
			rule: "what was refused goes by no lane any more", found: "TestRefusedStreamFallsBackToConn",
			edits: in("proxy.retrier.decideAfterSendFailure", "	retry.avoidStreamsAfter(attempt)\n", "	if !PLANTED {\n		retry.avoidStreamsAfter(attempt)\n	}\n"),
		},
	})
}
