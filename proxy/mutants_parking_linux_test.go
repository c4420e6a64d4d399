package proxy_test

// mutantsOfParking returns the mutants of parked connections.
func mutantsOfParking() []mutant {
	return append([]mutant{
		{
			rule: "nobody looks at a connection that is parked", found: "TestVisitedConnIsNotParked",
			edits: append(in("proxy/connset.Set.Park", "	s.awaitNoVisitsLocked()\n	switch", "	if !PLANTED {\n		s.awaitNoVisitsLocked()\n	}\n	switch"),
				in("proxy/connset.Set.Park", "	case s.visits > 0:\n", "	case s.visits > 0 && !PLANTED:\n")...),
		},
		{
			rule: "or goes on as it was", found: "TestLongVisitDoesNotBlockRequests",
			edits: in("proxy/connset.Set.awaitNoVisitsLocked", "	case <-timeout.C:\n", "	case <-timeout.C:\n		if PLANTED {\n			<-noVisits\n		}\n"),
		},
		{
			rule: "to be parked later", found: "TestVisitedConnIsParkedLater",
			edits: in("proxy.client.parkConn", "		if isPermanent(err) {\n", "		if isPermanent(err) || PLANTED {\n"),
		},
		{
			rule: "what has been told to end is not parked", found: "TestVisitedConnIsNotParked",
			edits: in("proxy/connset.Set.Park", "	case c.IsEnding():\n", "	case c.IsEnding() && !PLANTED:\n"),
		},
		{
			rule: "what others may know is not parked", found: "TestEscapedConnIsNotParked",
			edits: in("proxy.client.parkConn", "	if c.escaped {", "	if c.escaped && !PLANTED {"),
		},
		{
			rule: "a late event resumes no other connection", found: "TestLateEventIsIgnored",
			edits: in("proxy/connset.Set.unparkOnce", "[parked]; !found {", "[parked]; !found && !PLANTED {"),
		},
		{
			rule: "who fetches a parked connection takes it out", found: "TestParkedConnIsUnparkedOnce",
			edits: in("proxy/connset.Set.unparkLocked", "	delete(s.parked.conns, parked)\n", "	if !PLANTED {\n		delete(s.parked.conns, parked)\n	}\n"),
		},
		{
			rule: "a parked connection is its lot's alone", found: "TestParkedConnServesNextRequest",
			edits: in("proxy.client.runStep", "		if !c.idle.parked {\n			_ = c.conn.Close()", "		if !c.idle.parked || PLANTED {\n			_ = c.conn.Close()"),
		},
		{
			rule: "a parked connection is not idle for ever", found: "TestParkedConnHasUsualTimeouts",
			edits: in("proxy/connset.Set.SweepParked", "parked.IdleDeadline > 0 && now >= parked.IdleDeadline || ", "!PLANTED && parked.IdleDeadline > 0 && now >= parked.IdleDeadline || "),
		},
		{
			rule: "nor ends before its time", found: "TestParkedConnHasUsualTimeouts",
			edits: in("proxy.client.parkConn", "		parked.IdleDeadline = parked.IdleSince + maxDelay\n", "		if parked.IdleDeadline = parked.IdleSince + maxDelay; PLANTED {\n			parked.IdleDeadline -= maxDelay / 2\n		}\n"),
		},
		{
			rule: "a node that leaves ends parked connections", found: "TestDrainClosesParkedConns",
			edits: in("proxy/connset.Set.SweepParked", "now-parked.IdleSince >= idleLimit", "now-parked.IdleSince >= idleLimit && !PLANTED"),
		},
		{
			rule: "a listener that ends cuts what is parked, too", found: "TestListenerEndAbortsParkedConns",
			edits: in("proxy.Server.closeWithin", "return parked.Watcher.Ctx == ctx }", "return parked.Watcher.Ctx == ctx && !PLANTED }"),
		},
		{
			rule: "parked connections make room", found: "TestParkedConnsAreEvictedAtMaxConns",
			edits: in("proxy/connset.Set.EvictIdle", "		candidates = s.appendParked(candidates, deadline)\n", "		if !PLANTED {\n			candidates = s.appendParked(candidates, deadline)\n		}\n"),
		},
		{
			rule: "what a client has said is answered before its connection ends", found: "TestRequestToParkedConnDuringDrainIsServed",
			edits: in("proxy.clientListener.initClient", "		c.conn.StopWaiting()\n", "		if c.conn.StopWaiting(); PLANTED {\n			_ = c.conn.Close()\n		}\n"),
		},
		{
			rule: "who comes back soon is parked later", found: "TestQuicklyReturningConnIsParkedLater",
			edits: in("proxy.clientListener.initClient", "Delay(next.ReturnedSoon)", "Delay(next.ReturnedSoon && !PLANTED)"),
		},
	}, mutantsOfWebSocketParking()...)
}
