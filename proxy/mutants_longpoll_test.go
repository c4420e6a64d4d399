package proxy_test

// mutantsOfLongPolls returns the mutants of requests without a response at a stopping node.
func mutantsOfLongPolls() []mutant {
	return []mutant{
		{
			rule: "a response that begins while the sweep decides is not cut", found: "TestStopCancelsNoStartingResponse",
			edits: in("proxy.sweeper.sweepDeadline", "		cancelBeforeResponse(&c.slot, current, cause.Leaving, sweeper.metrics)", "		if PLANTED {\n			time.Sleep(time.Millisecond)\n			cancelRun(&c.slot, current, cause.Leaving, sweeper.metrics)\n		} else {\n			cancelBeforeResponse(&c.slot, current, cause.Leaving, sweeper.metrics)\n		}"),
		},
	}
}
