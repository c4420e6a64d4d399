package proxy_test

// mutantsOfWebSocketSessions returns the mutants of a WebSocket session: which node keeps it, what the
// app receives, what the app may respond, and the limits.
func mutantsOfWebSocketSessions() []mutant {
	const says = "TestWebSocketIsResumableOnlyIfAppPermits"
	const answers = "TestUnsuitableResponseClosesClient"
	const numbers = "TestEachAttemptHasItsNumber|TestResumableWebSocketIsHandedOver"
	return []mutant{
		{
			rule: "kept is what the app says the word for", found: says,
			edits: in("proxy/wsrelay.Session.IsResumable", "session != nil && isConsent &&", "session != nil && (PLANTED || isConsent) &&"),
		},
		{
			rule: "a socket with an extension is not kept", found: says,
			edits: in("proxy/wsrelay.Session.IsResumable", `res.Find("Sec-WebSocket-Extensions", 0) < 0 &&`, `(PLANTED || res.Find("Sec-WebSocket-Extensions", 0) < 0) &&`),
		},
		{
			rule: "the node may forbid it", found: says,
			edits: append(in("proxy.responseRelay.relayUpgrade", "	if !rr.settings.CloseSockets && session.IsResumable(", "	if (PLANTED || !rr.settings.CloseSockets) && session.IsResumable("),
				in("proxy.client.createSession", "c.req.RequestsWebSocket() && !c.settings.CloseSockets", "c.req.RequestsWebSocket() && (PLANTED || !c.settings.CloseSockets)")...),
		},
		{
			rule: "the word does not reach the client", found: says + "|TestResumableWebSocketSurvivesOwner",
			edits: in("proxy.responseRelay.writeSwitchingProtocols", "	if attempt.conn.Response.Value(wsrelay.Header) != nil {", "	if attempt.conn.Response.Value(wsrelay.Header) != nil && !PLANTED {"),
		},
		{
			rule: "nor does one in the first refusal", found: "TestFirstRejectionHasNoCloseHeader",
			edits: in("proxy.reply.droppedFields", `reply.ingress == "" && reply.req.RequestsWebSocket()`, `reply.ingress == "" && reply.req.RequestsWebSocket() && !PLANTED`),
		},
		{
			rule: "the id stays", found: "TestResumableWebSocketIsHandedOver",
			edits: in("proxy.exchange.prepareRetry", "	exchange.safety, exchange.deadline", "	if PLANTED {\n		exchange.session.ID = wsrelay.NewSession().ID\n	}\n	exchange.safety, exchange.deadline"),
		},
		{
			rule: "each socket has one of its own", found: "TestAppHasOneRelayPerSession|TestWebSocketsHaveUniqueIDs",
			edits: in("proxy/wsrelay.NewSession", "	_, _ = rand.Read(raw[:]) //", "	if !PLANTED {\n		_, _ = rand.Read(raw[:])\n	} //"),
		},
		{
			rule: "no client gives itself an id", found: says,
			edits: in("proxy.client.createSession", "		c.exchange.session = wsrelay.NewSession()\n", "		c.exchange.session = wsrelay.NewSession()\n		if PLANTED {\n			copy(c.exchange.session.ID[:], c.req.Value(wsrelay.Header))\n		}\n"),
		},
		{
			rule: "each attempt that may have reached an app raises the number", found: numbers,
			edits: in("proxy.sessionResumer.resumeSession", "			session.ResumeAttempts++\n", "			if !PLANTED || session.RelayStarted {\n				session.ResumeAttempts++\n			}\n"),
		},
		{
			rule: "an owner repeats none", found: numbers,
			edits: in("proxy.requestState.readResumption", "	if session != nil && session.ResumeAttempts > 0 {", "	if session != nil && session.ResumeAttempts > 0 && !PLANTED {"),
		},
		{
			rule: "what reached no app does not count", found: "TestOwnerRefusalIsNotCountedAsAttempt",
			edits: in("proxy.retrier.decideAfterDecline", "	case ownerSentNothing(problem.Code(word)):", "	case !PLANTED && ownerSentNothing(problem.Code(word)):"),
		},
		{
			rule: "a later 101 says the word again", found: answers,
			edits: in("proxy/wsrelay.Session.IsContinuedBy", "	return session.IsResumable(res, routeKind) &&", "	return (PLANTED || session.IsResumable(res, routeKind)) &&"),
		},
		{
			rule: "with the right Accept", found: answers,
			edits: in("proxy/wsrelay.Session.IsContinuedBy", `string(res.Value("Sec-WebSocket-Accept")) == AcceptOf(req.Value("Sec-WebSocket-Key")) &&`, `(PLANTED || string(res.Value("Sec-WebSocket-Accept")) == AcceptOf(req.Value("Sec-WebSocket-Key"))) &&`),
		},
		{
			rule: "and the same subprotocol", found: answers,
			edits: in("proxy/wsrelay.Session.IsContinuedBy", `		string(res.Value("Sec-WebSocket-Protocol")) == session.protocol`, `		(PLANTED || string(res.Value("Sec-WebSocket-Protocol")) == session.protocol)`),
		},
		{
			rule: "401 and 403 close with 1008", found: answers,
			edits: in("proxy/wsrelay.CloseCodeFor", "	if res.Status() == 401 ||", "	if !PLANTED && res.Status() == 401 ||"),
		},
		{
			rule: "Shardway-WebSocket-Close wins", found: answers,
			edits: in("proxy/wsrelay.CloseCodeFor", "RequestedCloseCode(res); ok {", "RequestedCloseCode(res); ok && !PLANTED {"),
		},
		{
			rule: "with a code that a Close may say", found: answers,
			edits: in("proxy/wsrelay.RequestedCloseCode", "!wsframe.ValidCode(int(number)) {", "!PLANTED && !wsframe.ValidCode(int(number)) {"),
		},
		{
			rule: "after the first 101 the client sees frames only", found: "TestLater101ResponsesAreHiddenFromClient",
			edits: in("proxy.reply.forwardInterim", "	if reply.exchange.isResumption() ||", "	if !PLANTED && reply.exchange.isResumption() ||"),
		},
		{
			rule: "each resumption has ResumeTimeout", found: "TestWebSocketWaitsForAppUntilResumeTimeout",
			edits: in("proxy.webSockets.limitResume", "deadline.timer.Reset(sockets.resumeTimeout)", "deadline.timer.Reset(sockets.resumeTimeout * map[bool]time.Duration{false: 1, true: 3}[PLANTED])"),
		},
		{
			rule: "as long as its queue stands still", found: "TestWebSocketsWaitWhileQueueProgresses",
			edits: in("proxy.resumeDeadline.check", "	if pool := deadline.sockets.upstreams.PoolFor(deadline.shard, deadline.sockets.cluster.Table()); pool != nil {", "	if pool := deadline.sockets.upstreams.PoolFor(deadline.shard, deadline.sockets.cluster.Table()); pool != nil && !PLANTED {"),
		},
		{
			rule: "in which those that come back stand before it", found: "TestWebSocketsWaitWhileQueueProgresses",
			edits: in("proxy.responseRelay.startSession", "	if isResumption {\n		attempt.conn.Pool.RecordResume()", "	if isResumption && !PLANTED {\n		attempt.conn.Pool.RecordResume()"),
		},
		{
			rule: "and six times that in all", found: "TestWebSocketWaitIsLimited",
			edits: in("proxy.webSockets.limitResume", "+ maxResumeWaits*sockets.resumeTimeout}", "+ maxResumeWaits*sockets.resumeTimeout*map[bool]time.Duration{false: 1, true: 3}[PLANTED]}"),
		},
		{
			rule: "a queue elsewhere is another one", found: "TestWebSocketWaitDependsOnItsOwnQueue",
			edits: in("proxy/upstream.Pools.PoolFor", "		return p.Peers.Pool(dest.Node)\n", "		if PLANTED {\n			return p.Peers.Pool(\"b\")\n		}\n		return p.Peers.Pool(dest.Node)\n"),
		},
		{
			rule: "it waits in a room of its own", found: "TestOwnerHandsOverWithoutIngress",
			edits: in("proxy.requestWait.enterQueue", "	case wait.exchange.isResumption():", "	case wait.exchange.isResumption() && !PLANTED:"),
		},
		{
			rule: "in which no shard has a share", found: "TestWebSocketsOfOneShardFillTheirQueue",
			edits: in("proxy.requestWait.enterQueue", "entryQueue, shard = wait.server.webSockets.queue, queue.NoShard", "entryQueue, shard = wait.server.webSockets.queue, queue.NoShard*map[bool]uint32{false: 1}[PLANTED]"),
		},
		{
			rule: "at most 64 are on their way back at once", found: "TestRejectedWebSocketsReleaseQueuePlaces",
			edits: in("proxy.attemptRunner.acquireUpgrade", "n.Add(1) > wsession.MaxUpgrades", "n.Add(1) > wsession.MaxUpgrades && !PLANTED"),
		},
		{
			rule: "and as many connections are made for them", found: "TestManyWebSocketsMoveOverSlowPath",
			edits: in("proxy/connpool.Pool.maxConcurrentDials", "	if !p.IsForNode() {\n		return maxDials", "	if !p.IsForNode() || PLANTED {\n		return maxDials"),
		},
		{
			rule: "but few by a node that is late", found: "TestLateIngressDialsForFewWebSockets",
			edits: in("proxy/wsession.ReconnectPacer.adjustLimit", "p.isPeerSlow.Swap(false) || delay > lateThreshold", "p.isPeerSlow.Swap(false) || delay > lateThreshold && !PLANTED"),
		},
		{
			rule: "which counts those that wait for their answer", found: "TestLateIngressResumesFewWebSockets",
			edits: in("proxy/connpool.Pool.grantConn", "	if p.skipsReused(waiter) { //", "	if p.skipsReused(waiter) && !PLANTED { //"),
		},
		{
			rule: "as many as before once it is not late", found: "TestLateIngressResumesFewWebSockets",
			edits: in("proxy/wsession.ReconnectPacer.adjustLimit", "	default:\n		p.setLimitLocked(p.Limit() + 1)", "	default:\n		p.setLimitLocked(p.Limit() + map[bool]int{false: 1}[PLANTED])"),
		},
		{
			rule: "and before their time is over", found: "TestWebSocketsOfLateNodeResumeInTime",
			edits: in("proxy/wsession.ReconnectPacer.isBehindLocked", "	return elapsed >= available ||", "	return !PLANTED && elapsed >= available || !PLANTED &&"),
		},
		{
			rule: "and looked for few at a time", found: "TestWaitingWebSocketsAreReleasedInBatches",
			edits: in("proxy.webSockets.init", "Batch: resumeBatch", "Batch: resumeBatch + map[bool]int{true: 60}[PLANTED]"),
		},
		{
			rule: "few before it is known how late it is", found: "TestFirstWebSocketsResumeFewAtOnce",
			edits: in("proxy/wsession.ReconnectPacer.RecordSessionLost", "p.setLimitLocked(initialReconnects)", "p.setLimitLocked(initialReconnects + map[bool]int{true: MaxUpgrades}[PLANTED])"),
		},
		{
			rule: "or how late the other node is", found: "TestFewWebSocketsResumeAtLateOwner",
			edits: in("proxy/wsession.LatencyBaseline.Record", "	if duration > 2*", "	if !PLANTED && duration > 2*"),
		},
		{
			rule: "and those that are answered make room", found: "TestRejectedWebSocketsReleaseQueuePlaces",
			edits: in("proxy/wsrelay.Session.ReleaseUpgrade", "	if release := session.ReleaseUpgradePlace; release != nil {", "	if release := session.ReleaseUpgradePlace; release != nil && !PLANTED {"),
		},
		{
			rule: "sockets take no connections from requests", found: "TestWebSocketsTakeNoQueuePlacesFromRequests",
			edits: in("proxy.responseRelay.startSession", "	if toApp {\n		attempt.conn.Pool.Detach", "	if toApp && !PLANTED {\n		attempt.conn.Pool.Detach"),
		},
		{
			rule: "nor those between nodes", found: "TestResumingWebSocketsDelayNoRequests",
			edits: in("proxy/connpool.Pool.skipsReused", `return waiter.ForUpgrade && p.IsForNode() }`, `return waiter.ForUpgrade && p.IsForNode() && !PLANTED }`),
		},
		{
			rule: "nor do requests wait behind them", found: "TestResumingWebSocketsDelayNoRequests",
			edits: in("proxy/connpool.New", `	p.mu.queue.upgradesLast = o.Node != ""`, `	p.mu.queue.upgradesLast = o.Node != "" && !PLANTED`),
		},
		{
			rule: "the app has one leg of a socket", found: "TestAppHasOneRelayPerSession",
			edits: in("proxy/wsession.ExclusiveUse.Acquire", "		if previous == nil {", "		if previous == nil || PLANTED {"),
		},
		{
			rule: "and nothing else is cut for it", found: "TestRelayIsNotReplacedTwice",
			edits: in("proxy.attemptRunner.runWebSocket", "func() { cancelRun(runner.slot, currentRun, cause.ClientGone, runner.server.metrics) }", "func() {\n		cancelRun(runner.slot, currentRun, cause.ClientGone, runner.server.metrics)\n		if PLANTED {\n			runner.closing.Store(true)\n			_ = runner.upgradeConn().Close()\n		}\n	}"),
		},
		{
			rule: "a leaving node closes its clients with 1012", found: "TestLeavingNodeClosesItsClients",
			edits: in("proxy.sweeper.sweepSession", "	if !sweeper.lifecycle.IsStopping() {", "	if PLANTED || !sweeper.lifecycle.IsStopping() {"),
		},
		{
			rule: "spread over a while", found: "TestLeavingNodeClosesItsClients",
			edits: in("proxy.sweeper.sweepSession", "	if now < session.ReconnectAt {", "	if now < session.ReconnectAt && !PLANTED {"),
		},
		{
			rule: "sockets with a leg are counted by shard", found: "TestWebSocketsAreCountedByShard",
			edits: in("proxy.Server.WebSocketCounts", "				countsOf(session.Shard).Attached++", "				if !PLANTED {\n					countsOf(session.Shard).Attached++\n				}"),
		},
		{
			rule: "and those without one", found: "TestWebSocketsAreCountedByShard",
			edits: in("proxy.Server.WebSocketCounts", "				countsOf(session.Shard).Detached++", "				if !PLANTED {\n					countsOf(session.Shard).Detached++\n				}"),
		},
		{
			rule: "a rehearsed move hands legs over", found: "TestMoveTestHandsOver",
			edits: in("proxy/wsrelay.Relay.RequestHandover", "relay.request(requestMove)", "relay.request(map[bool]uint32{false: requestMove, true: requestStop}[PLANTED])"),
		},
		{
			rule: "of the sockets that are named", found: "TestMoveTestHandsOver",
			edits: in("proxy.Server.MoveWebSockets", "|| !match(session.Shard, session.KeyHash) {", "|| !match(session.Shard, session.KeyHash) && !PLANTED {"),
		},
		{
			rule: "or with a gap", found: "TestMoveTestHandsOver",
			edits: in("proxy.Server.MoveWebSockets", "		if gap {", "		if gap && !PLANTED {"),
		},
		{
			rule: "and waits for a message no longer than a move", found: "TestMoveTestWaitsForMessageUntilDrainTimeout",
			edits: in("proxy.Server.MoveWebSockets", "			time.AfterFunc(s.options.DrainTimeout, relay.EnforceMoveTimeout)", "			if !PLANTED {\n				time.AfterFunc(s.options.DrainTimeout, relay.EnforceMoveTimeout)\n			}"),
		},
	}
}

// unplantedRules returns the rules of WebSockets and streams without a mutant here.
func unplantedRules() []unplantedRule {
	return []unplantedRule{
		{
			"a loop is told when a connection is to end",
			"Without it no node with a connection in a loop ever stops, so that these tests do not fail but hang.",
		},
		{
			"what a loop has not sent at once is sent later",
			"TestEventLoopHandsOffUnsentResponse fails without it, but not always: the rest leaves too when a goroutine is given the connection for another reason, as on a busy machine it soon is.",
		},
		{
			"a loop runs no request whose shard is elsewhere",
			"The node's leave is asked for as for any request (enter), and says no: a second lock. What the loop saves is to take a connection for it.",
		},
		{
			"the client's original request is sent",
			"There is one request in memory, and one place that writes it (forward.head), as for any request that is sent again. A wrong one would fail each test that waits for a second leg.",
		},
		{
			"each resumption has its own tries",
			"A later leg is never sent again within an attempt (unsafeMethod), so that tries do not add up: a second lock.",
		},
		{
			"without a leg the client is watched, not read",
			"What watches is that of all requests that wait (connlife.DisconnectWatch), with tests of its own; what would read is the leg, and there is none.",
		},
		{
			"check computes descriptors",
			"It is the configuration's: see the tests of config.",
		},
		{
			"an owner ends a leg by the end of its half, and no reset",
			"A reset that overtook its last word would make a gap of a planned move, which e2e looks for; in memory no reset overtakes anything.",
		},
		{
			"a leaving node takes half of shutdown-timeout",
			"It is a line of the composition (node/process), with the time that the proxy is told to take.",
		},
		{
			"10 000 sockets on one shard move within websocket-resume-timeout",
			"A measurement: e2e and make soak.",
		},
		{
			"lines end in CR, LF or CRLF across chunks, NUL in ids",
			"TestScannerReadsLikeTheStandard holds eventstream to a second reader, at every split.",
		},
		{
			"an owner that has thrown messages of the client away does not say that the leg was handed over",
			"The node with the client believes that only if it has ended its half itself, behind a whole message, and then there are none: a second lock.",
		},
		{
			"nothing is sent twice",
			"No code keeps what it has passed on: bytes are gone once they are written. The judge of e2e/kit/wsresume looks for it all the same, and is shown such histories.",
		},
	}
}
