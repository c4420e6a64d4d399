package proxy_test

// mutantsOfWebSocketRelays are those with one leg: how it is handed over, how it breaks, and what
// becomes of frames.
func mutantsOfWebSocketRelays() []mutant {
	const dies, goes, late = "TestAppDiesWithinMessage", "TestResumableWebSocketIsHandedOver|TestLastMessagesOfAppReachClient", "TestLateAppMessageClosesBothEnds"
	const breaks, parts = "TestProtocolViolationClosesBothEnds", "TestAppHasTenSecondsForCloseReply|TestClientHasTenSecondsForCloseReply"
	return []mutant{
		{
			rule: "a client that takes nothing keeps no shard", found: "TestStalledClientDoesNotKeepShard",
			edits: in("proxy.webSocketRelay.cancel", "		time.AfterFunc(2*endWait, l.cancelStuck)", "		if !PLANTED {\n			time.AfterFunc(2*endWait, l.cancelStuck)\n		}"),
		},
		{
			rule: "nor does one that does not answer a Close", found: "TestClientWithoutCloseReplyDoesNotKeepShard",
			edits: in("proxy.webSocketRelay.cancelStuck", "		l.request(requestStop)\n		time", "		if !PLANTED {\n			l.request(requestStop)\n		}\n		time"),
		},
		{
			rule: "but none is cut because its node is late", found: "TestLateNodeAbortsNoClient",
			edits: in("proxy.webSocketRelay.cancelStuck", "	case l.down.lastActivity.Load() == activeNow:", "	case l.down.lastActivity.Load() == activeNow || PLANTED:"),
		},
		{
			rule: "a leg ends between two messages of the client", found: "TestWebSocketMovesAtEachByte",
			edits: in("proxy.webSocketRelay.shouldStopUp", "|| l.closeSent.Load() != 0 || !l.upIsBetweenMessages():", "|| l.closeSent.Load() != 0 || !PLANTED && !l.upIsBetweenMessages():"),
		},
		{
			rule: "and there the owner gets the end of its half", found: "TestResumableWebSocketIsHandedOver",
			edits: in("proxy.webSocketRelay.shouldStopUp", "	if l.halfClosed = l.upstream.CloseWrite(); !l.halfClosed {", "	if l.halfClosed = PLANTED || l.upstream.CloseWrite(); !l.halfClosed {"),
		},
		{
			rule: "nothing behind that message goes to the old app", found: "TestIncompleteMessageDuringMove",
			edits: in("proxy.webSocketRelay.forwardUp", "(!l.isRequested(requestMove) || !l.upIsBetweenMessages())", "(PLANTED || !l.isRequested(requestMove) || !l.upIsBetweenMessages())"),
		},
		{
			rule: "an owner hands over by itself after a second", found: "TestOwnerHandsOverWithoutIngress",
			edits: in("proxy.Server.sweepRelay", "	if now-c.movedAt >= wsession.HandoverDelay {\n		l.request", "	if now-c.movedAt >= wsession.HandoverDelay && !PLANTED {\n		l.request"),
		},
		{
			rule: "the app is told 1012", found: goes,
			edits: in("proxy.webSocketRelay.handOver", "	l.sendClose(wsession.CloseMoved, within)", "	l.sendClose(wsession.CloseMoved-map[bool]int{true: 11}[PLANTED], within)"),
		},
		{
			rule: "the app alone is told", found: goes,
			edits: in("proxy.webSocketRelay.forwardControl", "		if l.closeAcknowledged = l.acknowledgesClose(l.appClose); l.closeAcknowledged ||", "		if l.closeAcknowledged = l.acknowledgesClose(l.appClose); l.closeAcknowledged && !PLANTED ||"),
		},
		{
			rule: "what the app sends until its Close is passed on", found: goes,
			edits: in("proxy.webSocketRelay.forwardDown", "	case l.streaming || l.downScanner.BetweenMessages() && len(l.heldMessage) == 0:\n		l.writeDown(p)", "	case l.streaming || l.downScanner.BetweenMessages() && len(l.heldMessage) == 0:\n		if !PLANTED || l.closeSent.Load() == 0 {\n			l.writeDown(p)\n		}"),
		},
		{
			rule: "an owner says that a leg was handed over", found: goes,
			edits: in("proxy.webSocketRelay.endCode", "	case l.closeAcknowledged && l.clientEOF && !l.discarded:", "	case !PLANTED && l.closeAcknowledged && l.clientEOF && !l.discarded:"),
		},
		{
			rule: "a hand-over has drain-timeout, and no grace", found: "TestFullAppIsHandedOver",
			edits: in("proxy.webSocketRelay.handOver", "	within := l.server.options.DrainTimeout\n", "	within := l.server.options.DrainTimeout\n	if PLANTED {\n		within = closeFrameWrite\n	}\n"),
		},
		{
			rule: "it begins at once", found: "TestLastMessagesOfAppReachClient",
			edits: in("proxy.Server.sweepRelay", "		if l.toClient {\n			s.webSockets.handovers", "		if l.toClient && !PLANTED {\n			s.webSockets.handovers"),
		},
		{
			rule: "few at a time", found: "TestRelaysAreHandedOverInBatches",
			edits: in("proxy/wsession.HandoverPacer.nextStep", "	batch = h.queue[:n:n]\n", "	if PLANTED {\n		n = all\n	}\n	batch = h.queue[:n:n]\n"),
		},
		{
			rule: "fewer by a node that is late", found: "TestRelaysAreHandedOverInBatches",
			edits: in("proxy/wsession.HandoverPacer.nextStep", "late > lateThreshold {", "late > lateThreshold && !PLANTED {"),
		},
		{
			rule: "a message that is late closes both ends", found: late + "|TestIncompleteMessageDuringMove",
			edits: in("proxy.webSocketRelay.hasUnfinishedMessage", "return l.drainExpired.Load() && (", "return !PLANTED && l.drainExpired.Load() && ("),
		},
		{
			rule: "a message of the app, too", found: late,
			edits: in("proxy.webSocketRelay.hasUnfinishedMessage", "(!l.upIsBetweenMessages() || l.downScanner.InMessage())", "(!l.upIsBetweenMessages() || l.downScanner.InMessage() && !PLANTED)"),
		},
		{
			rule: "also when the owner is another node", found: late,
			edits: in("proxy.webSocketRelay.decideOutcome", "l.hasUnfinishedMessage(), l.ownerCode == endLate:", "l.hasUnfinishedMessage(), l.ownerCode == endLate && !PLANTED:"),
		},
		{
			rule: "only then", found: "TestRestOfMessageIsDiscardedAfterBrokenMove",
			edits: in("proxy.webSocketRelay.decideOutcome", "	case l.isRequested(requestReconnect):\n", "	case PLANTED && !l.upIsBetweenMessages() && l.isRequested(requestMove), l.isRequested(requestReconnect):\n"),
		},
		{
			rule: "a leg that breaks ends alone", found: "TestResumableWebSocketSurvivesOwner",
			edits: in("proxy.webSocketRelay.decideOutcome", "	case !l.shouldResume(why, x, r):", "	case PLANTED || !l.shouldResume(why, x, r):"),
		},
		{
			rule: "the next one is told of the gap", found: "TestResumableWebSocketSurvivesOwner",
			edits: in("proxy.webSocketRelay.decideOutcome", "k.resumes, k.gap, k.skip = true, true, ", "k.resumes, k.gap, k.skip = true, !PLANTED, "),
		},
		{
			rule: "so is the one after an attempt without an answer", found: "TestWebSocketMovesDuringResumption|TestEachAttemptHasItsNumber",
			edits: in("proxy.client.resumeSession", "			k.gap = k.gap || !k.relayStarted\n", "			k.gap = k.gap || !k.relayStarted && !PLANTED\n"),
		},
		{
			rule: "but not one after that", found: "TestWebSocketMovesAfterBreak",
			edits: in("proxy.responseRelay.startSession", "		k.gap = false\n", "		k.gap = k.gap && PLANTED\n"),
		},
		{
			rule: "the rest of a broken message is discarded", found: "TestRestOfBrokenMessageIsDiscarded",
			edits: in("proxy.webSocketRelay.decideOutcome", ", !l.upScanner.BetweenMessages()\n", ", !l.upScanner.BetweenMessages() && !PLANTED\n"),
		},
		{
			rule: "a message passes when it is whole", found: dies,
			edits: in("proxy.webSocketRelay.forwardDown", "		l.heldMessage = append(l.heldMessage, p...)", "		if l.heldMessage = append(l.heldMessage, p...); PLANTED {\n			l.writeDown(l.heldMessage)\n			l.heldMessage = l.heldMessage[:0]\n		}"),
		},
		{
			rule: "what stands between its frames at once", found: "TestPingPassesIncompleteMessage",
			edits: in("proxy.webSocketRelay.forwardDown", "	case l.downScanner.IsControl():\n", "	case l.downScanner.IsControl() && PLANTED && len(l.heldMessage) > 0:\n		l.heldMessage = append(l.heldMessage, p...)\n	case l.downScanner.IsControl():\n"),
		},
		{
			rule: "one that is too long passes with what was held of it", found: "TestLongMessagesAreHandedOver",
			edits: in("proxy.webSocketRelay.forwardDown", "		l.writeDown(l.heldMessage)\n		l.writeDown(p)\n		l.heldMessage = nil", "		if !PLANTED {\n			l.writeDown(l.heldMessage)\n		}\n		l.writeDown(p)\n		l.heldMessage = nil"),
		},
		{
			rule: "and ends its client when it breaks", found: dies,
			edits: in("proxy.webSocketRelay.decideOutcome", "	case l.streaming: // no other", "	case l.streaming && !PLANTED: // no other"),
		},
		{
			rule: "an app that ends without Close has ended the socket", found: "TestAppEndsWithoutCloseFrame",
			edits: in("proxy.webSocketRelay.shouldResume", "	case l.toApp:\n		return l.server.elsewhere(x.shard, r) ||", "	case PLANTED && (l.toApp || l.ownerCode == endEnded):\n		return true\n	case l.toApp:\n		return l.server.elsewhere(x.shard, r) ||"),
		},
		{
			rule: "unless it takes no connections", found: "TestAppRestartsDuringWebSocket",
			edits: append(in("proxy.webSocketRelay.shouldResume", "|| l.server.appRefuses()\n", "|| !PLANTED && l.server.appRefuses()\n"),
				in("proxy.webSocketRelay.endCode", "	case l.server.appRefuses():\n", "	case !PLANTED && l.server.appRefuses():\n")...),
		},
		{
			rule: "or the shard is elsewhere", found: dies,
			edits: in("proxy.Server.elsewhere", "	return int(shard) >= t.Shards() ||", "	if PLANTED {\n		return false\n	}\n	return int(shard) >= t.Shards() ||"),
		},
		{
			rule: "Close 1012 of the app asks for another leg", found: "TestAppRequestsHandover",
			edits: in("proxy.webSocketRelay.forwardControl", "l.toClient && l.appClose == wsession.CloseMoved && !l", "!PLANTED && l.toClient && l.appClose == wsession.CloseMoved && !l"),
		},
		{
			rule: "any other code is final", found: "TestAppCloseCrossesMove",
			edits: in("proxy.webSocketRelay.acknowledgesClose", "	if sentCode != wsession.CloseMoved {\n", "	if sentCode != wsession.CloseMoved || PLANTED {\n"),
		},
		{
			rule: "so is one that the app says before it has read ours", found: "TestAppCloseCrossesMove",
			edits: in("proxy.webSocketRelay.acknowledgesClose", "(l.pongReceived || !l.toApp) &&", "(PLANTED || l.pongReceived || !l.toApp) &&"),
		},
		{
			rule: "what tells is between us and the app", found: "TestAppCloseCrossesMove",
			edits: in("proxy.webSocketRelay.forwardControl", "			l.pongReceived = true\n			return false\n", "			if l.pongReceived = true; !PLANTED {\n				return false\n			}\n"),
		},
		{
			rule: "a Close of the client is final", found: "TestAppIgnoresCloseAfterBrokenMessage",
			edits: in("proxy.webSocketRelay.decideOutcome", "	case l.clientClosed.Load():\n", "	case l.clientClosed.Load() && !PLANTED:\n"),
		},
		{
			rule: "who is silent has ten seconds to answer a Close", found: parts,
			edits: in("proxy.webSocketRelay.awaitCloseReply", "min(closeReplyTimeout, idle))", "min(closeReplyTimeout*map[bool]time.Duration{false: 1, true: 3}[PLANTED], idle))"),
		},
		{
			rule: "who says something first is not silent", found: "TestAppMaySendBeforeCloseReply",
			edits: in("proxy.closeReplyWait.check", "		since = max(since, time.Duration(last))", "		if !PLANTED {\n			since = max(since, time.Duration(last))\n		}"),
		},
		{
			rule: "nor is who waits until that is taken", found: "TestAppIsNotSilentWhileItsClientReadsSlowly",
			edits: in("proxy.closeReplyWait.check", "	case activeNow:\n		since = now", "	case activeNow:\n		if !PLANTED {\n			since = now\n		}"),
		},
		{
			rule: "and who never stops is not waited for", found: parts + "|TestAppMaySendBeforeCloseReply",
			edits: in("proxy.closeReplyWait.check", "min(since+closeReplyTimeout, p.latestEnd)", "min(since+closeReplyTimeout, p.latestEnd+map[bool]time.Duration{true: time.Hour}[PLANTED])"),
		},
		{
			rule: "three legs may break within a minute", found: "TestRelaysThatBreakTooOften",
			edits: in("proxy.webSocketSession.recordBreak", "!first.IsZero() && now.Sub(first) < breakPeriod {", "!first.IsZero() && now.Sub(first) < breakPeriod && !PLANTED {"),
		},
		{
			rule: "and three more in the next one", found: "TestOldBreaksDoNotCount",
			edits: in("proxy.webSocketSession.recordBreak", "	k.broken[maxBreaks-1] = now\n", "	if PLANTED {\n		now = now.Add(time.Hour)\n	}\n	k.broken[maxBreaks-1] = now\n"),
		},
		{
			rule: "who breaks the protocol closes both ends with 1002", found: breaks,
			edits: in("proxy.webSocketRelay.decideOutcome", "	case l.invalid || l.appInvalid:", "	case (l.invalid || l.appInvalid) && !PLANTED:"),
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
