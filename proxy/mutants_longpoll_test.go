package proxy_test

// mutantsOfLongPolls returns the mutants of requests without a response at a stopping node.
func mutantsOfLongPolls() []mutant {
	return []mutant{
		{
			rule: "a response that begins while the sweep decides is not cut", found: "TestStopCancelsNoStartingResponse",
			edits: in("proxy.Server.sweepDeadline", "		s.cancelBeforeResponse(c, current, cause.Leaving)", "		if PLANTED {\n			time.Sleep(time.Millisecond)\n			s.cancelRun(c, current, cause.Leaving)\n		} else {\n			s.cancelBeforeResponse(c, current, cause.Leaving)\n		}"),
		},
	}
}
