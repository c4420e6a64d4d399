package proxy_test

// mutantsOfIdleWatcher are those with connections that nobody waits at.
func mutantsOfIdleWatcher() []mutant {
	return append([]mutant{
		{
			rule: "nobody looks at a connection that is parked", found: "TestVisitedConnIsNotParked",
			edits: append(in("proxy.registry.addParked", "	r.awaitNoVisits()\n	switch", "	if !PLANTED {\n		r.awaitNoVisits()\n	}\n	switch"),
				in("proxy.registry.addParked", "	case r.visits > 0:\n", "	case r.visits > 0 && !PLANTED:\n")...),
		},
		{
			rule: "be it after the next visit", found: "TestConnIsParkedAfterNextVisit",
			edits: in("proxy.registry.awaitNoVisits", "r.visits > 0 && !over;", "r.visits > 0 && !over; over = over || PLANTED"),
		},
		{
			rule: "or goes on as it was", found: "TestLongVisitDoesNotBlockRequests",
			edits: in("proxy.registry.awaitNoVisits", "	case <-late.C:\n", "	case <-late.C:\n		if PLANTED {\n			<-noVisits\n		}\n"),
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
			edits: in("proxy.registry.unpark", "	delete(r.parked.all, parked)\n", "	if !PLANTED {\n		delete(r.parked.all, parked)\n	}\n"),
		},
		{
			rule: "a parked connection is its lot's alone", found: "TestParkedConnServesNextRequest",
			edits: in("proxy.client.runStep", "			if !c.parked {\n				_ = c.conn.Close()", "			if !c.parked || PLANTED {\n				_ = c.conn.Close()"),
		},
		{
			rule: "a parked connection is not idle for ever", found: "TestParkedConnHasUsualTimeouts",
			edits: in("proxy.registry.sweepParked", "parked.until > 0 && now >= parked.until || ", "!PLANTED && parked.until > 0 && now >= parked.until || "),
		},
		{
			rule: "nor ends before its time", found: "TestParkedConnHasUsualTimeouts",
			edits: in("proxy.client.parkConn", "		parked.until = parked.since + most\n", "		if parked.until = parked.since + most; PLANTED {\n			parked.until -= most / 2\n		}\n"),
		},
		{
			rule: "a node that leaves ends parked connections", found: "TestDrainClosesParkedConns",
			edits: in("proxy.registry.sweepParked", "now-parked.since >= idleLimit", "now-parked.since >= idleLimit && !PLANTED"),
		},
		{
			rule: "a listener that ends cuts what is parked, too", found: "TestListenerEndAbortsParkedConns",
			edits: in("proxy.Server.closeWithin", "return parked.watcher.within == ctx }", "return parked.watcher.within == ctx && !PLANTED }"),
		},
		{
			rule: "parked connections make room", found: "TestParkedConnsAreEvictedAtMaxConns",
			edits: in("proxy.Server.evictIdle", "		all = s.conns.appendIdle(all, now, least)\n", "		if !PLANTED {\n			all = s.conns.appendIdle(all, now, least)\n		}\n"),
		},
		{
			rule: "what a client has said is answered before its connection ends", found: "TestRequestToParkedConnDuringDrainIsServed",
			edits: in("proxy.idleWatcher.initClient", "		c.conn.StopWaiting()\n", "		if c.conn.StopWaiting(); PLANTED {\n			_ = c.conn.Close()\n		}\n"),
		},
		{
			rule: "who comes back soon is parked later", found: "TestQuicklyReturningConnIsParkedLater",
			edits: in("proxy.idleWatcher.initClient", "; g.returnedSoon {\n", "; g.returnedSoon && !PLANTED {\n"),
		},
	}, mutantsOfWebSocketParking()...)
}
