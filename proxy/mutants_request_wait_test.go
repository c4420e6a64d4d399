package proxy_test

// mutantsOfRequestWait are those with requests that go on after they have waited.
func mutantsOfRequestWait() []mutant {
	return []mutant{
		{
			rule: "who goes on keeps its turn until it is answered", found: "TestQueuedRequestsContinueAfterResponses",
			edits: in("proxy.exchange.dequeue", "		x.ticket.Dequeue()\n", "		if x.ticket.Dequeue(); PLANTED {\n			x.ticket.Leave()\n		}\n"),
		},
		{
			rule: "and has it no longer than until the head of the answer", found: "TestQueuedRequestsContinueAtResponseHeader",
			edits: in("proxy.client.processResponse", "	c.exchange.leaveQueue()\n	if began, err := c.relay.relayResponse(p); !began {\n",
				"	if !PLANTED {\n		c.exchange.leaveQueue()\n	}\n	if began, err := c.relay.relayResponse(p); !began {\n"),
		},
		{
			rule: "nor in the process of the node", found: "TestQueuedRequestsContinueAtHandlerResponse",
			edits: in("proxy.handlerConn.sendResponse", "	t.a.exchange.leaveQueue()\n", "	if !PLANTED {\n		t.a.exchange.leaveQueue()\n	}\n"),
		},
	}
}
