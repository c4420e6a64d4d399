package proxy_test

// mistakesOfParking are those with connections that nobody waits at.
func mistakesOfParking() []mistake {
	return append([]mistake{
		{
			rule: "nobody looks at a connection that is parked", found: "TestConnectionThatIsLookedAtIsNotParked",
			edits: append(in("proxy.registry.park", "	r.await()\n	switch", "	if !PLANTED {\n		r.await()\n	}\n	switch"),
				in("proxy.registry.park", "	case r.visits > 0:\n", "	case r.visits > 0 && !PLANTED:\n")...),
		},
		{
			rule: "be it after the next visit", found: "TestConnectionIsParkedBehindTheNextVisit",
			edits: in("proxy.registry.await", "r.visits > 0 && !over;", "r.visits > 0 && !over; over = over || PLANTED"),
		},
		{
			rule: "or goes on as it was", found: "TestConnectionThatIsLookedAtForLongIsAnswered",
			edits: in("proxy.registry.await", "	case <-late.C:\n", "	case <-late.C:\n		if PLANTED {\n			<-still\n		}\n"),
		},
		{
			rule: "to be parked later", found: "TestConnectionThatWasLookedAtIsParkedLater",
			edits: in("proxy.client.park", "		c.delayPark(isPermanent(err))\n", "		c.delayPark(isPermanent(err) || PLANTED)\n"),
		},
		{
			rule: "what has been told to end is not parked", found: "TestConnectionThatIsLookedAtIsNotParked",
			edits: in("proxy.registry.park", "	case c.isEnding():\n", "	case c.isEnding() && !PLANTED:\n"),
		},
		{
			rule: "what others may know is not parked", found: "TestConnectionThatIsKnownElsewhereIsNotParked",
			edits: in("proxy.client.park", "	if c.escaped {", "	if c.escaped && !PLANTED {"),
		},
		{
			rule: "no two parked connections have one number", found: "TestLateWordMeetsNobody",
			edits: in("proxy.registry.park", "	r.parked.last++\n", "	if !PLANTED {\n		r.parked.last++\n	}\n"),
		},
		{
			rule: "who fetches a parked connection takes it out", found: "TestParkedConnectionIsFetchedOnce",
			edits: in("proxy.registry.unpark", "	delete(r.parked.all, p.id)\n", "	if !PLANTED {\n		delete(r.parked.all, p.id)\n	}\n"),
		},
		{
			rule: "a parked connection is its lot's alone", found: "TestParkedConnectionGoesOn",
			edits: in("proxy.client.runStep", "			if !c.parked {\n				_ = c.conn.Close()", "			if !c.parked || PLANTED {\n				_ = c.conn.Close()"),
		},
		{
			rule: "a parked connection is not idle for ever", found: "TestParkedConnectionHasTheClocksOfOthers",
			edits: in("proxy.registry.sweepParked", "p.until > 0 && now >= p.until || ", "!PLANTED && p.until > 0 && now >= p.until || "),
		},
		{
			rule: "nor ends before its time", found: "TestParkedConnectionHasTheClocksOfOthers",
			edits: in("proxy.client.park", "		p.until = p.since + most\n", "		if p.until = p.since + most; PLANTED {\n			p.until -= most / 2\n		}\n"),
		},
		{
			rule: "a node that leaves ends parked connections", found: "TestNodeThatLeavesEndsParkedConnections",
			edits: in("proxy.registry.sweepParked", "now-p.since >= patience", "now-p.since >= patience && !PLANTED"),
		},
		{
			rule: "a listener that ends cuts what is parked, too", found: "TestListenerThatEndsCutsWhatIsParked",
			edits: in("proxy.Server.closeWithin", "return p.watcher.within == ctx }", "return p.watcher.within == ctx && !PLANTED }"),
		},
		{
			rule: "parked connections make room", found: "TestParkedConnectionsMakeRoom",
			edits: in("proxy.Server.evictIdle", "		all = s.conns.appendIdle(all, now, least)\n", "		if !PLANTED {\n			all = s.conns.appendIdle(all, now, least)\n		}\n"),
		},
		{
			rule: "what a client has said is answered before its connection ends", found: "TestWhatWasSaidToAParkedConnectionIsAnswered",
			edits: in("proxy.idleWatcher.initClient", "		c.conn.StopIdle()\n", "		if c.conn.StopIdle(); PLANTED {\n			_ = c.conn.Close()\n		}\n"),
		},
		{
			rule: "who comes back soon is parked later", found: "TestWhoComesBackSoonIsParkedLater",
			edits: in("proxy.idleWatcher.initClient", "; g.returnedSoon {\n", "; g.returnedSoon && !PLANTED {\n"),
		},
		{
			rule: "nobody stays where nothing is heard of him", found: "TestConnectionsLeaveALotThatHearsNothing",
			edits: in("proxy.idleWatcher.run", "	l.broken = true\n	l.conns.mu.Unlock()\n	l.conns.wake(", "	if l.broken = true; PLANTED {\n		l.conns.mu.Unlock()\n		return\n	}\n	l.conns.mu.Unlock()\n	l.conns.wake("),
		},
	}, mistakesOfLegParking()...)
}
