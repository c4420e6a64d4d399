package proxy_test

// mutantsOfIdleWatcher returns the mutants of parked connections.
func mutantsOfIdleWatcher() []mutant {
	return append([]mutant{
		{
			rule: "nobody looks at a connection that is parked", found: "TestVisitedConnIsNotParked",
			edits: append(in("proxy.registry.addParked", "	r.awaitNoVisits()\n	switch", "	if !PLANTED {\n		r.awaitNoVisits()\n	}\n	switch"),
				in("proxy.registry.addParked", "	case r.visits > 0:\n", "	case r.visits > 0 && !PLANTED:\n")...),
		},
		{
			rule: "be it after the next visit", found: "TestConnIsParkedAfterNextVisit",
			edits: in("proxy.registry.awaitNoVisits", "r.visits > 0 && !timedOut;", "r.visits > 0 && !timedOut; timedOut = timedOut || PLANTED"),
		},
		{
			rule: "or goes on as it was", found: "TestLongVisitDoesNotBlockRequests",
			edits: in("proxy.registry.awaitNoVisits", "	case <-timeout.C:\n", "	case <-timeout.C:\n		if PLANTED {\n			<-noVisits\n		}\n"),
		},
		{
			rule: "to be parked later", found: "TestVisitedConnIsParkedLater",
			edits: in("proxy.client.parkConn", "		c.delayPark(isPermanent(err))\n", "		c.delayPark(isPermanent(err) || PLANTED)\n"),
		},
		{
			rule: "what has been told to end is not parked", found: "TestVisitedConnIsNotParked",
			edits: in("proxy.registry.addParked", "	case c.isEnding():\n", "	case c.isEnding() && !PLANTED:\n"),
		},
		{
			rule: "what others may know is not parked", found: "TestEscapedConnIsNotParked",
			edits: in("proxy.client.parkConn", "	if c.escaped {", "	if c.escaped && !PLANTED {"),
		},
		{
			rule: "a late event resumes no other connection", found: "TestLateEventIsIgnored",
			edits: in("proxy.registry.unparkOnce", "[parked]; !found {", "[parked]; !found && !PLANTED {"),
		},
		{
			rule: "who fetches a parked connection takes it out", found: "TestParkedConnIsUnparkedOnce",
			edits: in("proxy.registry.unpark", "	delete(r.parked.conns, parked)\n", "	if !PLANTED {\n		delete(r.parked.conns, parked)\n	}\n"),
		},
		{
			rule: "a parked connection is its lot's alone", found: "TestParkedConnServesNextRequest",
			edits: in("proxy.client.runStep", "		if !c.parked {\n			_ = c.conn.Close()", "		if !c.parked || PLANTED {\n			_ = c.conn.Close()"),
		},
		{
			rule: "a parked connection is not idle for ever", found: "TestParkedConnHasUsualTimeouts",
			edits: in("proxy.registry.sweepParked", "parked.idleDeadline > 0 && now >= parked.idleDeadline || ", "!PLANTED && parked.idleDeadline > 0 && now >= parked.idleDeadline || "),
		},
		{
			rule: "nor ends before its time", found: "TestParkedConnHasUsualTimeouts",
			edits: in("proxy.client.parkConn", "		parked.idleDeadline = parked.idleSince + maxDelay\n", "		if parked.idleDeadline = parked.idleSince + maxDelay; PLANTED {\n			parked.idleDeadline -= maxDelay / 2\n		}\n"),
		},
		{
			rule: "a node that leaves ends parked connections", found: "TestDrainClosesParkedConns",
			edits: in("proxy.registry.sweepParked", "now-parked.idleSince >= idleLimit", "now-parked.idleSince >= idleLimit && !PLANTED"),
		},
		{
			rule: "a listener that ends cuts what is parked, too", found: "TestListenerEndAbortsParkedConns",
			edits: in("proxy.Server.closeWithin", "return parked.watcher.parentCtx == ctx }", "return parked.watcher.parentCtx == ctx && !PLANTED }"),
		},
		{
			rule: "parked connections make room", found: "TestParkedConnsAreEvictedAtMaxConns",
			edits: in("proxy.Server.evictIdle", "		candidates = s.conns.appendIdle(candidates, now, minIdle)\n", "		if !PLANTED {\n			candidates = s.conns.appendIdle(candidates, now, minIdle)\n		}\n"),
		},
		{
			rule: "what a client has said is answered before its connection ends", found: "TestRequestToParkedConnDuringDrainIsServed",
			edits: in("proxy.idleWatcher.initClient", "		c.conn.StopWaiting()\n", "		if c.conn.StopWaiting(); PLANTED {\n			_ = c.conn.Close()\n		}\n"),
		},
		{
			rule: "who comes back soon is parked later", found: "TestQuicklyReturningConnIsParkedLater",
			edits: in("proxy.idleWatcher.initClient", "; next.returnedSoon {\n", "; next.returnedSoon && !PLANTED {\n"),
		},
	}, mutantsOfWebSocketParking()...)
}
