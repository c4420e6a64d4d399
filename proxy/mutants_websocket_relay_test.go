package proxy_test

// mutantsOfWebSocketRelays returns the mutants of one upstream connection: its handover, its break,
// and its frames.
func mutantsOfWebSocketRelays() []mutant {
	const dies, goes, late = "TestAppDiesWithinMessage", "TestResumableWebSocketIsHandedOver|TestLastMessagesOfAppReachClient", "TestLateAppMessageClosesBothEnds"
	const breaks, parts = "TestProtocolViolationClosesBothEnds", "TestAppHasTenSecondsForCloseReply|TestClientHasTenSecondsForCloseReply"
	return []mutant{
		{
			rule: "a client that takes nothing keeps no shard", found: "TestStalledClientDoesNotKeepShard",
			edits: in("proxy/wsrelay.Relay.Cancel", "		time.AfterFunc(2*wsession.EndTimeout, relay.cancelStuck)", "		if !PLANTED {\n			time.AfterFunc(2*wsession.EndTimeout, relay.cancelStuck)\n		}"),
		},
		{
			rule: "nor does one that does not answer a Close", found: "TestClientWithoutCloseReplyDoesNotKeepShard",
			edits: in("proxy/wsrelay.Relay.cancelStuck", "		relay.request(requestStop)\n		time", "		if !PLANTED {\n			relay.request(requestStop)\n		}\n		time"),
		},
		{
			rule: "but none is cut because its node is late", found: "TestLateNodeAbortsNoClient",
			edits: in("proxy/wsrelay.Relay.cancelStuck", "	case relay.down.lastActivity.Load() == activeNow:", "	case relay.down.lastActivity.Load() == activeNow || PLANTED:"),
		},
		{
			rule: "a leg ends between two messages of the client", found: "TestWebSocketMovesAtEachByte",
			edits: in("proxy/wsrelay.Relay.handleUpRequests", "|| relay.sentCloseCode.Load() != 0 || !relay.upIsBetweenMessages():", "|| relay.sentCloseCode.Load() != 0 || !PLANTED && !relay.upIsBetweenMessages():"),
		},
		{
			rule: "and there the owner gets the end of its half", found: "TestResumableWebSocketIsHandedOver",
			edits: in("proxy/wsrelay.Relay.handleUpRequests", "	if relay.halfClosed = relay.upstream.CloseWrite(); !relay.halfClosed {", "	if relay.halfClosed = PLANTED || relay.upstream.CloseWrite(); !relay.halfClosed {"),
		},
		{
			rule: "nothing behind that message goes to the old app", found: "TestIncompleteMessageDuringMove",
			edits: in("proxy/wsrelay.Relay.forwardUp", "(!relay.isRequested(requestMove) || !relay.upIsBetweenMessages())", "(PLANTED || !relay.isRequested(requestMove) || !relay.upIsBetweenMessages())"),
		},
		{
			rule: "an owner hands over by itself after a second", found: "TestOwnerHandsOverWithoutIngress",
			edits: in("proxy.sweeper.sweepRelay", "	if now-c.moveSeenAt >= wsession.HandoverDelay {\n		relay.Request", "	if now-c.moveSeenAt >= wsession.HandoverDelay && !PLANTED {\n		relay.Request"),
		},
		{
			rule: "the app is told 1012", found: goes,
			edits: in("proxy/wsrelay.Relay.handOver", "	relay.sendClose(wsession.CloseShardMoved, timeout)", "	relay.sendClose(wsession.CloseShardMoved-map[bool]int{true: 11}[PLANTED], timeout)"),
		},
		{
			rule: "the app alone is told", found: goes,
			edits: in("proxy/wsrelay.Relay.forwardControl", "		if relay.closeAcknowledged = relay.acknowledgesClose(relay.appCloseCode); relay.closeAcknowledged ||", "		if relay.closeAcknowledged = relay.acknowledgesClose(relay.appCloseCode); relay.closeAcknowledged && !PLANTED ||"),
		},
		{
			rule: "what the app sends until its Close is passed on", found: goes,
			edits: in("proxy/wsrelay.Relay.forwardDown", "	case relay.streamingMessage || relay.downScanner.BetweenMessages() && len(relay.bufferedMessage) == 0:\n		relay.writeDown(data)", "	case relay.streamingMessage || relay.downScanner.BetweenMessages() && len(relay.bufferedMessage) == 0:\n		if !PLANTED || relay.sentCloseCode.Load() == 0 {\n			relay.writeDown(data)\n		}"),
		},
		{
			rule: "an owner says that a leg was handed over", found: goes,
			edits: in("proxy/wsrelay.Relay.endCode", "	case relay.closeAcknowledged && relay.clientEOF && !relay.clientDataDiscarded:", "	case !PLANTED && relay.closeAcknowledged && relay.clientEOF && !relay.clientDataDiscarded:"),
		},
		{
			rule: "a hand-over has drain-timeout, and no grace", found: "TestFullAppIsHandedOver",
			edits: in("proxy/wsrelay.Relay.handOver", "	timeout := relay.shared.DrainTimeout\n", "	timeout := relay.shared.DrainTimeout\n	if PLANTED {\n		timeout = wsession.CloseFrameTimeout\n	}\n"),
		},
		{
			rule: "it begins at once", found: "TestLastMessagesOfAppReachClient",
			edits: in("proxy.sweeper.sweepRelay", "		if relay.LeadsToClient() {\n			sweeper.handovers", "		if relay.LeadsToClient() && !PLANTED {\n			sweeper.handovers"),
		},
		{
			rule: "few at a time", found: "TestRelaysAreHandedOverInBatches",
			edits: in("proxy/wsession.HandoverPacer.nextStep", "	batch = p.requests[:batchSize:batchSize]\n", "	if PLANTED {\n		batchSize = queued\n	}\n	batch = p.requests[:batchSize:batchSize]\n"),
		},
		{
			rule: "fewer by a node that is late", found: "TestRelaysAreHandedOverInBatches",
			edits: in("proxy/wsession.HandoverPacer.nextStep", "delay > lateThreshold {", "delay > lateThreshold && !PLANTED {"),
		},
		{
			rule: "a message that is late closes both ends", found: late + "|TestIncompleteMessageDuringMove",
			edits: in("proxy/wsrelay.Relay.hasUnfinishedMessage", "return relay.drainExpired.Load() && (", "return !PLANTED && relay.drainExpired.Load() && ("),
		},
		{
			rule: "a message of the app, too", found: late,
			edits: in("proxy/wsrelay.Relay.hasUnfinishedMessage", "(!relay.upIsBetweenMessages() || relay.downScanner.InMessage())", "(!relay.upIsBetweenMessages() || relay.downScanner.InMessage() && !PLANTED)"),
		},
		{
			rule: "also when the owner is another node", found: late,
			edits: in("proxy/wsrelay.Relay.decideOutcome", "relay.hasUnfinishedMessage(), relay.ownerEndCode == endMessageUnfinished:", "relay.hasUnfinishedMessage(), relay.ownerEndCode == endMessageUnfinished && !PLANTED:"),
		},
		{
			rule: "only then", found: "TestRestOfMessageIsDiscardedAfterBrokenMove",
			edits: in("proxy/wsrelay.Relay.decideOutcome", "	case relay.isRequested(requestReconnect):\n", "	case PLANTED && !relay.upIsBetweenMessages() && relay.isRequested(requestMove), relay.isRequested(requestReconnect):\n"),
		},
		{
			rule: "a leg that breaks ends alone", found: "TestResumableWebSocketSurvivesOwner",
			edits: in("proxy/wsrelay.Relay.decideOutcome", "	case !relay.shouldResume(cancelCause, shard, dest):", "	case PLANTED || !relay.shouldResume(cancelCause, shard, dest):"),
		},
		{
			rule: "the next one is told of the gap", found: "TestResumableWebSocketSurvivesOwner",
			edits: in("proxy/wsrelay.Relay.decideOutcome", "session.NeedsRelay, session.MessagesMayBeLost, session.discardsMessage = true, true, ", "session.NeedsRelay, session.MessagesMayBeLost, session.discardsMessage = true, !PLANTED, "),
		},
		{
			rule: "so is the one after an attempt without an answer", found: "TestWebSocketMovesDuringResumption|TestEachAttemptHasItsNumber",
			edits: in("proxy.sessionResumer.resumeSession", "			session.MessagesMayBeLost = session.MessagesMayBeLost || !session.RelayStarted\n", "			session.MessagesMayBeLost = session.MessagesMayBeLost || !session.RelayStarted && !PLANTED\n"),
		},
		{
			rule: "but not one after that", found: "TestWebSocketMovesAfterBreak",
			edits: in("proxy/wsrelay.Session.RecordStart", "	session.MessagesMayBeLost = false\n", "	session.MessagesMayBeLost = session.MessagesMayBeLost && PLANTED\n"),
		},
		{
			rule: "the rest of a broken message is discarded", found: "TestRestOfBrokenMessageIsDiscarded",
			edits: in("proxy/wsrelay.Relay.decideOutcome", ", !relay.upScanner.BetweenMessages()\n", ", !relay.upScanner.BetweenMessages() && !PLANTED\n"),
		},
		{
			rule: "a message passes when it is whole", found: dies,
			edits: in("proxy/wsrelay.Relay.forwardDown", "		relay.bufferedMessage = append(relay.bufferedMessage, data...)", "		if relay.bufferedMessage = append(relay.bufferedMessage, data...); PLANTED {\n			relay.writeDown(relay.bufferedMessage)\n			relay.bufferedMessage = relay.bufferedMessage[:0]\n		}"),
		},
		{
			rule: "what stands between its frames at once", found: "TestPingPassesIncompleteMessage",
			edits: in("proxy/wsrelay.Relay.forwardDown", "	case relay.downScanner.IsControl():\n", "	case relay.downScanner.IsControl() && PLANTED && len(relay.bufferedMessage) > 0:\n		relay.bufferedMessage = append(relay.bufferedMessage, data...)\n	case relay.downScanner.IsControl():\n"),
		},
		{
			rule: "one that is too long passes with what was held of it", found: "TestLongMessagesAreHandedOver",
			edits: in("proxy/wsrelay.Relay.forwardDown", "		relay.writeDown(relay.bufferedMessage)\n		relay.writeDown(data)\n		relay.bufferedMessage = nil", "		if !PLANTED {\n			relay.writeDown(relay.bufferedMessage)\n		}\n		relay.writeDown(data)\n		relay.bufferedMessage = nil"),
		},
		{
			rule: "and ends its client when it breaks", found: dies,
			edits: in("proxy/wsrelay.Relay.decideOutcome", "	case relay.streamingMessage: // no other", "	case relay.streamingMessage && !PLANTED: // no other"),
		},
		{
			rule: "an app that ends without Close has ended the socket", found: "TestAppEndsWithoutCloseFrame",
			edits: in("proxy/wsrelay.Relay.shouldResume", "	case relay.toApp:\n		return relay.shared.RouteChanged(shard, dest) ||", "	case PLANTED && (relay.toApp || relay.ownerEndCode == endWithoutClose):\n		return true\n	case relay.toApp:\n		return relay.shared.RouteChanged(shard, dest) ||"),
		},
		{
			rule: "unless it takes no connections", found: "TestAppRestartsDuringWebSocket",
			edits: append(in("proxy/wsrelay.Relay.shouldResume", "|| relay.appHasDied()\n", "|| !PLANTED && relay.appHasDied()\n"),
				in("proxy/wsrelay.Relay.endCode", "	case relay.appHasDied():\n", "	case !PLANTED && relay.appHasDied():\n")...),
		},
		{
			rule: "or its process has ended", found: "TestWebSocketOutlivesProcessOfItsKey",
			edits: in("proxy/wsrelay.Relay.appHasDied", "	case <-relay.ProcessEnded:\n		return true\n", "	case <-relay.ProcessEnded:\n		return !PLANTED\n"),
		},
		{
			rule: "but not while its process runs", found: "TestWebSocketOutlivesProcessOfItsKey",
			edits: in("proxy/wsrelay.Relay.appHasDied", "	case <-time.After(processEndDelay):\n		return false\n", "	case <-time.After(processEndDelay):\n		return PLANTED\n"),
		},
		{
			rule: "or the shard is elsewhere", found: dies,
			edits: in("proxy.webSockets.routeChanged", "	return int(shard) >= table.Shards() ||", "	if PLANTED {\n		return false\n	}\n	return int(shard) >= table.Shards() ||"),
		},
		{
			rule: "Close 1012 of the app asks for another leg", found: "TestAppRequestsHandover",
			edits: in("proxy/wsrelay.Relay.forwardControl", "relay.toClient && relay.appCloseCode == wsession.CloseShardMoved && !relay", "!PLANTED && relay.toClient && relay.appCloseCode == wsession.CloseShardMoved && !relay"),
		},
		{
			rule: "any other code is final", found: "TestAppCloseCrossesMove",
			edits: in("proxy/wsrelay.Relay.acknowledgesClose", "	if sentCode != wsession.CloseShardMoved {\n", "	if sentCode != wsession.CloseShardMoved || PLANTED {\n"),
		},
		{
			rule: "so is one that the app says before it has read ours", found: "TestAppCloseCrossesMove",
			edits: in("proxy/wsrelay.Relay.acknowledgesClose", "(relay.pongReceived || !relay.toApp) &&", "(PLANTED || relay.pongReceived || !relay.toApp) &&"),
		},
		{
			rule: "what tells is between us and the app", found: "TestAppCloseCrossesMove",
			edits: in("proxy/wsrelay.Relay.forwardControl", "			relay.pongReceived = true\n			return false\n", "			if relay.pongReceived = true; !PLANTED {\n				return false\n			}\n"),
		},
		{
			rule: "a Close of the client is final", found: "TestAppIgnoresCloseAfterBrokenMessage",
			edits: in("proxy/wsrelay.Relay.decideOutcome", "	case relay.clientClosed.Load():\n", "	case relay.clientClosed.Load() && !PLANTED:\n"),
		},
		{
			rule: "who is silent has ten seconds to answer a Close", found: parts,
			edits: in("proxy/wsrelay.Relay.awaitCloseReply", "min(closeReplyTimeout, idleTimeout))", "min(closeReplyTimeout*map[bool]time.Duration{false: 1, true: 3}[PLANTED], idleTimeout))"),
		},
		{
			rule: "who says something first is not silent", found: "TestAppMaySendBeforeCloseReply",
			edits: in("proxy/wsrelay.closeReplyWait.check", "		silentSince = max(silentSince, time.Duration(lastActivity))", "		if !PLANTED {\n			silentSince = max(silentSince, time.Duration(lastActivity))\n		}"),
		},
		{
			rule: "nor is who waits until that is taken", found: "TestAppIsNotSilentWhileItsClientReadsSlowly",
			edits: in("proxy/wsrelay.closeReplyWait.check", "	case activeNow:\n		silentSince = now", "	case activeNow:\n		if !PLANTED {\n			silentSince = now\n		}"),
		},
		{
			rule: "and who never stops is not waited for", found: parts + "|TestAppMaySendBeforeCloseReply",
			edits: in("proxy/wsrelay.closeReplyWait.check", "min(silentSince+closeReplyTimeout, wait.latestEnd)", "min(silentSince+closeReplyTimeout, wait.latestEnd+map[bool]time.Duration{true: time.Hour}[PLANTED])"),
		},
		{
			rule: "three legs may break within a minute", found: "TestRelaysThatBreakTooOften",
			edits: in("proxy/wsrelay.Session.recordBreak", "!oldest.IsZero() && now.Sub(oldest) < breakPeriod {", "!oldest.IsZero() && now.Sub(oldest) < breakPeriod && !PLANTED {"),
		},
		{
			rule: "and three more in the next one", found: "TestOldBreaksDoNotCount",
			edits: in("proxy/wsrelay.Session.recordBreak", "	session.recentBreaks[maxBreaks-1] = now\n", "	if PLANTED {\n		now = now.Add(time.Hour)\n	}\n	session.recentBreaks[maxBreaks-1] = now\n"),
		},
		{
			rule: "who breaks the protocol closes both ends with 1002", found: breaks,
			edits: in("proxy/wsrelay.Relay.decideOutcome", "	case relay.clientInvalid || relay.appInvalid:", "	case (relay.clientInvalid || relay.appInvalid) && !PLANTED:"),
		},
		{
			rule: "frames: masking", found: breaks,
			edits: in("proxy/wsframe.Scanner.checkHeader", "		case s.header.isMasked() != s.expectMasked:", "		case !PLANTED && s.header.isMasked() != s.expectMasked:"),
		},
		{
			rule: "frames: reserved bits", found: breaks,
			edits: in("proxy/wsframe.Scanner.checkFirstByte", "	case s.header.bytes[0]&0x70 != 0:", "	case s.header.bytes[0]&0x70 != 0 && !PLANTED:"),
		},
		{
			rule: "frames: control frames are whole", found: breaks,
			edits: in("proxy/wsframe.Scanner.checkFirstByte", "		if !fin {\n			return s.fail(ErrControl)", "		if !fin && !PLANTED {\n			return s.fail(ErrControl)"),
		},
		{
			rule: "frames: and short", found: breaks,
			edits: in("proxy/wsframe.Scanner.checkHeader", "length > maxControlPayload:", "length > maxControlPayload+map[bool]byte{true: 2}[PLANTED]:"),
		},
		{
			rule: "frames: lengths are minimal", found: breaks,
			edits: in("proxy/wsframe.Scanner.checkHeader", "	if payloadLen < minLen ||", "	if payloadLen < minLen && !PLANTED ||"),
		},
		{
			rule: "frames: lengths have 63 bits", found: breaks,
			edits: in("proxy/wsframe.Scanner.checkHeader", "|| payloadLen > math.MaxInt64 {", "|| payloadLen > math.MaxInt64 && !PLANTED {"),
		},
		{
			rule: "frames: nothing goes on without having begun", found: breaks,
			edits: in("proxy/wsframe.Scanner.checkFirstByte", "		if !s.inMessage {", "		if !s.inMessage && !PLANTED {"),
		},
		{
			rule: "frames: no message begins in another one", found: breaks,
			edits: in("proxy/wsframe.Scanner.checkFirstByte", "		if s.inMessage {", "		if s.inMessage && !PLANTED {"),
		},
		{
			rule: "frames: a Close has a good code", found: breaks,
			edits: in("proxy/wsframe.Scanner.endFrame", "		if !validClose(s.payload[:s.payloadLen]) {", "		if !PLANTED && !validClose(s.payload[:s.payloadLen]) {"),
		},
	}
}
