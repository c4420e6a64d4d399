package proxy_test

// mutantsOfEventLoops returns the mutants of connections in an event loop.
func mutantsOfEventLoops() []mutant {
	return []mutant{
		{
			rule: "a loop is tried again after a while", found: "TestEventLoopIsRetriedAfterDescriptorsRanOut",
			edits: in("proxy/eventloop.Client.Join", "c.group.isUnsupported() {", "c.group.isUnsupported() || PLANTED {"),
		},
		{
			rule: "a request that panics is over", found: "TestPanicIsCountedInEveryGoroutine",
			edits: in("proxy.client.HandlePanic", "	if c.exchange.isOpen() {\n", "	if c.exchange.isOpen() && !PLANTED {\n"),
		},
		{
			rule: "a loop is told when what it runs is cut", found: "TestEventLoopRequestIsCancelled",
			edits: in("proxy/eventloop.Client.RegisterUpstream", "	conn.SetWakeup(&c.wakeup)\n", "	if !PLANTED {\n		conn.SetWakeup(&c.wakeup)\n	}\n"),
		},
		{
			rule: "what comes with its end is answered, and then it is over", found: "TestEventLoopReadsDataThatArrivedMeanwhile",
			edits: in("proxy/eventloop.Loop.handleEvent", "c.inputEnded || event.End", "c.inputEnded || event.End && !PLANTED"),
		},
		{
			rule: "what is longer than a buffer is read on", found: "TestEventLoopReadsDataThatArrivedMeanwhile",
			edits: in("proxy/eventloop.Client.ReadRequest", "c.inputEnded || c.conn.MayHaveMore()", "c.inputEnded || c.conn.MayHaveMore() && !PLANTED"),
		},
		{
			rule: "what is here already is gone on with", found: "TestEventLoopReadsDataThatArrivedMeanwhile",
			edits: in("proxy/eventloop.Client.AwaitNext", "	if c.mayHaveData || len(c.conn.Buffered()) > 0 {", "	if c.mayHaveData || len(c.conn.Buffered()) > 0 && !PLANTED {"),
		},
		{
			rule: "who leaves to read reads", found: "TestEventLoopDetectsClientDisconnect",
			edits: in("proxy/eventloop.Eligibility.skipNext", "max(e.skip, 1)", "max(e.skip, map[bool]int{true: 0, false: 1}[PLANTED])"),
		},
		{
			rule: "what takes its time is waited for and watched elsewhere", found: "TestEventLoopDetectsClientDisconnect",
			edits: in("proxy.sweeper.sweepRun", "		c.loopClient.Wake() // from now on", "		if !PLANTED {\n			c.loopClient.Wake()\n		} // from here on"),
		},
		{
			rule: "nobody idles in a loop for longer than elsewhere", found: "TestEventLoopConnsTimeOut",
			edits: in("proxy.sweeper.sweepIdle", "		c.loopClient.Wake() // its goroutine", "		if !PLANTED {\n			c.loopClient.Wake()\n		} // its goroutine"),
		},
		{
			rule: "what has come since the last look is read", found: "TestEventLoopReadsDataThatArrivedMeanwhile",
			edits: in("proxy/eventloop.Client.ReadRequest", "c.conn.Received() != before {", "c.conn.Received() != before || PLANTED {"),
		},
		{
			rule: "what another loop has read is gone on with", found: "TestConnMovesBetweenLoopsWithBufferedRequest",
			edits: in("proxy/eventloop.Loop.adopt", "	if len(c.conn.Buffered()) > 0 { // its previous loop", "	if len(c.conn.Buffered()) > 0 && !PLANTED { // its previous loop"),
		},
		{
			rule: "what has been read is not parked", found: "TestBufferedDataPreventsParking",
			edits: in("proxy.client.parkConn", "	if len(c.conn.Buffered()) > 0 {\n		return false", "	if len(c.conn.Buffered()) > 0 && !PLANTED {\n		return false"),
		},
		{
			rule: "a loop sends no long body", found: "TestEventLoopSendsNoLongBody",
			edits: in("proxy.client.startAttempt", "	if !c.sendsChecked() {", "	if !c.sendsChecked() && !PLANTED {"),
		},
		{
			rule: "a loop never waits until a client reads", found: "TestEventLoopHandsOffUnsentResponse",
			edits: in("proxy/eventloop.Loop.adopt", "	c.conn.Writer().SetNonblocking(true)\n", "	c.conn.Writer().SetNonblocking(!PLANTED)\n"),
		},
		{
			rule: "what is none for a loop stays away for a while", found: "TestEventLoopIsNotTriedForEachRequest",
			edits: in("proxy/eventloop.Client.BeginJoin", "		c.Eligibility.skip--\n		return false", "		c.Eligibility.skip--\n		c.joining = PLANTED\n		return PLANTED"),
		},
		{
			rule: "an answer that is not whole is left as it was", found: "TestIneligibleRequestsLeaveEventLoop",
			edits: in("proxy.client.HandleResponse", "	case found == h1.ParseMustBlock, eventrelay.IsEvents(res):\n", "	case found == h1.ParseMustBlock, eventrelay.IsEvents(res):\n		if PLANTED {\n			attempt.conn.ConsumeResponse(res)\n		}\n"),
		},
		{
			rule: "many connections are shared among loops", found: "TestConnsAreBalancedAmongEventLoops",
			edits: in("proxy/eventloop.Group.moveClientsLocked", "target != loop && clientCount > fairShare {", "target != loop && clientCount > fairShare && !PLANTED {"),
		},
	}
}
