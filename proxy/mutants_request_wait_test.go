package proxy_test

// mutantsOfRequestWait returns the mutants of the release of queued requests.
func mutantsOfRequestWait() []mutant {
	return []mutant{
		{
			rule: "who goes on keeps its turn until it is answered", found: "TestQueuedRequestsContinueAfterResponses",
			edits: in("proxy.exchange.dequeue", "		exchange.ticket.Dequeue()\n", "		if exchange.ticket.Dequeue(); PLANTED {\n			exchange.ticket.Leave()\n		}\n"),
		},
		{
			rule: "and has it no longer than until the head of the answer", found: "TestQueuedRequestsContinueAtResponseHeader",
			edits: in("proxy.attemptRunner.forwardResponse", "	runner.exchange.finishQueueing()\n	if began, err := runner.relay.relayResponse(attempt); !began {\n",
				"	if !PLANTED {\n		runner.exchange.finishQueueing()\n	}\n	if began, err := runner.relay.relayResponse(attempt); !began {\n"),
		},
		{
			rule: "nor in the process of the node", found: "TestQueuedRequestsContinueAtHandlerResponse",
			edits: in("proxy.handlerConn.BeginResponse", "	hc.runner.exchange.finishQueueing()\n", "	if !PLANTED {\n		hc.runner.exchange.finishQueueing()\n	}\n"),
		},
	}
}
