package mux

import (
	"testing"

	"shardway/internal/overlay"
)

func protocolMutants() []overlay.Mutant {
	return []overlay.Mutant{
		{
			Rule: "a reset stream has no end", Found: "TestResetStreamHasNoEnd",
			Decl: "peer/mux.Session.handleStreamFrame", Old: "		st.handleReset()", New: "		if PLANTED {\n			st.handleEnd(true)\n			return nil\n		}\n		st.handleReset()",
		},
		{
			Rule: "a stream of a failed session has no end", Found: "TestFailedSessionFailsStreamsAfterReceivedData",
			Decl: "peer/mux.Session.Fail", Old: "		st.fail(err)\n	}\n	for _, st := range unsent", New: "		if PLANTED {\n			st.handleEnd(true)\n		}\n		st.fail(err)\n	}\n	for _, st := range unsent",
		},
		{
			Rule: "a closed stream ends", Found: "TestClosedStreamEndsAfterLastByte",
			Decl: "peer/mux.Stream.handleEnd", Old: "	st.peerClosedWrite, st.peerClosedRead = true, st.peerClosedRead || readClosed", New: "	st.peerClosedWrite, st.peerClosedRead = !PLANTED, st.peerClosedRead || readClosed",
		},
		{
			Rule: "a frame belongs to its own stream", Found: "TestStreamsCarryTheirOwnBytesBothWays",
			Decl: "peer/mux.Session.lookupStream", Old: "	st = s.streams[f.stream]", New: "	if st = s.streams[f.stream]; PLANTED && st != nil && f.stream%2 == 0 && s.streams[f.stream-1] != nil {\n		st = s.streams[f.stream-1]\n	}",
		},
		{
			Rule: "a sender does not exceed its credit", Found: "TestWriteDoesNotExceedCredit",
			Decl: "peer/mux.Stream.reserveCredit", Old: "		if n := min(want, st.sendCredit); n > 0 {", New: "		if n := min(want, max(st.sendCredit, map[bool]int{true: want}[PLANTED])); n > 0 {",
		},
		{
			Rule: "a receiver enforces credit", Found: "TestSendingBeyondCreditFailsSession",
			Decl: "peer/mux.Stream.receive", Old: "st.recvCredit < 0 {", New: "st.recvCredit < 0 && !PLANTED {",
		},
		{
			Rule: "only consumed bytes are returned as credit", Found: "TestSendingBeyondCreditFailsSession",
			Decl: "peer/mux.Stream.Read", Old: "	st.consumed += n\n", New: "	st.consumed += n * map[bool]int{true: 2, false: 1}[PLANTED]\n",
		},
		{
			Rule: "credit is limited to the window", Found: "TestWriteDoesNotExceedCredit",
			Decl: "peer/mux.Stream.addSendCredit", Old: "	if n == 0 || exceedsWindow {", New: "	if !PLANTED && exceedsWindow {",
		},
		{
			Rule: "credit is returned", Found: "TestSendingBeyondCreditFailsSession|TestStreamsCarryTheirOwnBytesBothWays",
			Decl: "peer/mux.Stream.Read", Old: "	if credit > 0 {", New: "	if credit > 0 && !PLANTED {",
		},
		{
			Rule: "urgent frames overtake data", Found: "TestUrgentFramesOvertakeData",
			Decl: "peer/mux.Session.enqueueLocked", Old: "	if s.mustKeepOrderLocked(typ, stream) {", New: "	if s.mustKeepOrderLocked(typ, stream) || PLANTED {",
		},
		{
			Rule: "a close does not overtake data", Found: "TestUrgentFramesOvertakeData",
			Decl: "peer/mux.Stream.Close", Old: "	typ := frameClose\n", New: "	typ := frameClose\n	if PLANTED {\n		st.resetOnClose = true\n	}\n",
		},
		{
			Rule: "a reset does not overtake the open frame", Found: "TestStreamResetBeforeItWasSentIsHarmless",
			Decl: "peer/mux.Session.mustKeepOrderLocked", Old: "s.acceptStream == nil && stream > s.batchedID\n", New: "s.acceptStream == nil && stream > s.batchedID && !PLANTED\n",
		},
		{
			Rule: "stream IDs are not reused", Found: "TestProtocolErrorFailsSession",
			Decl: "peer/mux.Session.openPeerStreamLocked", Old: "	if s.acceptStream == nil || id <= s.lastID {", New: "	if s.acceptStream == nil || id <= s.lastID && !PLANTED {",
		},
		{
			Rule: "late frames are ignored", Found: "TestLateFramesAreIgnored",
			Decl: "peer/mux.Session.lookupStream", Old: "	if f.stream > s.lastID {", New: "	if f.stream > s.lastID || PLANTED && st == nil {",
		},
		{
			Rule: "streams after a GOAWAY are unprocessed", Found: "TestStreamAfterGoAwayIsUnprocessed",
			Decl: "peer/mux.Session.handleGoAway", Old: "		if id > last {", New: "		if id > last && !PLANTED {",
		},
		{
			Rule: "streams before a GOAWAY are not", Found: "TestStreamAfterGoAwayIsUnprocessed",
			Decl: "peer/mux.Session.handleGoAway", Old: "	for id, st := range s.streams {", New: "	if PLANTED {\n		last = 0\n	}\n	for id, st := range s.streams {",
		},
		{
			Rule: "a stream after a GOAWAY is not accepted", Found: "TestStreamThatCrossesGoAwayIsIgnored",
			Decl: "peer/mux.Session.openPeerStreamLocked", Old: "	if s.goingAway {", New: "	if s.goingAway && !PLANTED {",
		},
		{
			Rule: "a closed stream is not written to", Found: "TestResetStreamHasNoEnd",
			Decl: "peer/mux.Stream.writeErrorLocked", Old: "	case st.closed || st.writeClosed:", New: "	case st.closed && !PLANTED || st.writeClosed:",
		},
	}
}

// limitMutants violate the rules that limit memory, work and waiting that one end causes at the
// other.
func limitMutants() []overlay.Mutant {
	const cuts, silent, waits = "TestStreamsResetAtOnceCountUntilPeerClosesThem", "TestSilentSessionIsPingedAndReplaced", "TestQueueForPeerThatDoesNotReadIsLimited"
	return []overlay.Mutant{
		{
			Rule: "a stream counts until this end has closed it", Found: cuts,
			Decl: "peer/mux.Session.handlePeerClose", Old: "	st.peerClosed = true\n", New: "	st.peerClosed = true\n	if PLANTED {\n		st.localClosed, st.closeBatched = true, true\n	}\n",
		},
		{
			Rule: "also if its session has failed", Found: "TestBudgetIsReleasedOnClose",
			Decl: "peer/mux.Session.releaseIfDoneLocked", Old: "	if !st.localClosed || !finished {", New: "	if !(PLANTED && s.err != nil) && !st.localClosed || !finished {",
		},
		{
			Rule: "a stream counts until the peer has closed it", Found: cuts + "|TestStreamLimitHoldsWhileStreamsAreReplaced",
			Decl: "peer/mux.Session.releaseIfDoneLocked", Old: " st.peerClosed &&", New: " (st.peerClosed || PLANTED) &&",
		},
		{
			Rule: "a stream counts until its close frame is taken", Found: waits,
			Decl: "peer/mux.Session.releaseIfDoneLocked", Old: " st.closeBatched\n", New: " (st.closeBatched || PLANTED)\n",
		},
		{
			Rule: "a failed session releases its streams", Found: "TestBudgetIsReleasedOnClose",
			Decl: "peer/mux.Session.releaseIfDoneLocked", Old: "	finished := s.err != nil ||", New: "	finished := s.err != nil && !PLANTED ||",
		},
		{
			Rule: "the limit covers all sessions to a node", Found: "TestStreamLimitCoversAllSessionsToNode",
			Decl: "peer/mux.SessionSet.dialSession", Old: "	session := NewClient(conn, dest.budget)", New: "	session := NewClient(conn, map[bool]*Budget{true: NewBudget(MaxStreams, nil), false: dest.budget}[PLANTED])",
		},
		{
			Rule: "a budget counts in its parent", Found: "TestBudgetIsReleasedOnClose",
			Decl: "peer/mux.Budget.acquire", Old: "b.parent == nil || b.parent.acquire(n)", New: "b.parent == nil || b.parent.acquire(n) || PLANTED",
		},
		{
			Rule: "window updates of a stream are merged", Found: waits,
			Decl: "peer/mux.Session.enqueueWindowUpdate", Old: "	if st.pendingCredit == 0 {", New: "	if st.pendingCredit == 0 || PLANTED {",
		},
		{
			Rule: "a GOAWAY is sent once", Found: "TestGoAwayIsValidated",
			Decl: "peer/mux.Session.handleGoAway", Old: "isRepeated := s.goAwayReceived", New: "isRepeated := s.goAwayReceived && !PLANTED",
		},
		{
			Rule: "a GOAWAY names an opened stream", Found: "TestGoAwayIsValidated",
			Decl: "peer/mux.Session.handleGoAway", Old: " last > s.lastID\n", New: " last > s.lastID && !PLANTED\n",
		},
		{
			Rule: "a GOAWAY does not revoke an answered stream", Found: "TestGoAwayIsValidated",
			Decl: "peer/mux.Session.handleGoAway", Old: " last < s.maxPeerID\n", New: " last < s.maxPeerID && !PLANTED\n",
		},
		{
			Rule: "a close is sent after the peer has closed, too", Found: "TestStreamClosedByPeerIsAnsweredWithClose",
			Decl: "peer/mux.Session.closeStream", Old: "		s.enqueueLocked(typ, st.id, nil)\n		s.closingStreams", New: "		if !PLANTED || !st.peerClosed {\n			s.enqueueLocked(typ, st.id, nil)\n		}\n		s.closingStreams",
		},
		{
			Rule: "a slow reader keeps little memory", Found: "TestSlowReaderBuffersUpToOneWindow",
			Decl: "peer/mux.makeRoom", Old: "	case len(b)+n <= cap(b):", New: "	case PLANTED || len(b)+n <= cap(b):",
		},
		{
			Rule: "a blocked stream is listed once", Found: waits,
			Decl: "peer/mux.Session.blockLocked", Old: "	if !st.isBlocked {", New: "	if !st.isBlocked || PLANTED {",
		},
		{
			Rule: "one ping is queued", Found: waits,
			Decl: "peer/mux.Session.enqueueLocked", Old: "	case typ == framePing && s.pingQueued,", New: "	case typ == framePing && s.pingQueued && !PLANTED,",
		},
		{
			Rule: "one pong is queued", Found: waits,
			Decl: "peer/mux.Session.enqueueLocked", Old: "typ == framePong && s.pongQueued:", New: "typ == framePong && s.pongQueued && !PLANTED:",
		},
		{
			Rule: "an open frame is sent at once", Found: "TestOpenFrameIsSentWithoutData",
			Decl: "peer/mux.Session.enqueueLocked", Old: "	s.signalWriterLocked()\n}\n", New: "	if typ != frameOpen || !PLANTED {\n		s.signalWriterLocked()\n	}\n}\n",
		},
		{
			Rule: "a silent session is pinged", Found: silent,
			Decl: "peer/mux.Session.readRecently", Old: "	return hasRead && sinceRead < recentReadTime", New: "	return hasRead && (PLANTED || sinceRead < recentReadTime)",
		},
		{
			Rule: "a ping is answered", Found: silent,
			Decl: "peer/mux.Session.handleFrame", Old: "		_ = s.enqueue(framePong, 0, nil)", New: "		if PLANTED {\n			return nil\n		}\n		_ = s.enqueue(framePong, 0, nil)",
		},
		{
			Rule: "a session without a pong is replaced", Found: silent + "|TestSessionWithoutPongIsReplaced",
			Decl: "peer/mux.SessionSet.dialSession", Old: "	if err := session.AwaitPong(ctx); err != nil {\n		session.Drain()", New: "	if err := session.AwaitPong(ctx); err != nil {\n		if !PLANTED {\n			session.Drain()\n		}",
		},
		{
			Rule: "a failed session is replaced at once", Found: "TestSessionThatFailsDuringPingIsReplacedAtOnce",
			Decl: "peer/mux.SessionSet.Connect", Old: "	session, err := ss.dialSession(ctx, dest, node)", New: "	if PLANTED && session != nil {\n		return ErrDraining\n	}\n	session, err := ss.dialSession(ctx, dest, node)",
		},
		{
			Rule: "a replaced session drains", Found: silent,
			Decl: "peer/mux.SessionSet.Connect", Old: "		session.Drain() // after", New: "		if !PLANTED {\n			session.Drain()\n		} // after",
		},
		{
			Rule: "dials have an interval", Found: "TestUnreachableNodeIsDialedWithBackoff",
			Decl: "peer/mux.SessionSet.openOrConnect", Old: "!time.Now().Before(dest.notBefore) {", New: "(PLANTED || !time.Now().Before(dest.notBefore)) {",
		},
		{
			Rule: "a silent session counts as a failure", Found: "TestRepeatedlyFailingSessionsAreDialedWithBackoff",
			Decl: "peer/mux.SessionSet.Connect", Old: "		backOff := ss.removeUnresponsive(", New: "		if PLANTED {\n			session.Drain()\n			time.Sleep(1)\n		}\n		backOff := ss.removeUnresponsive(",
		},
		{
			Rule: "early failures increase the backoff", Found: "TestRepeatedlyFailingSessionsAreDialedWithBackoff",
			Decl: "peer/mux.destination.removeSession", Old: "	if !orderly && time", New: "	if !PLANTED && !orderly && time",
		},
		{
			Rule: "silent sessions increase the backoff", Found: "TestRepeatedlyFailingSessionsAreDialedWithBackoff",
			Decl: "peer/mux.SessionSet.removeUnresponsive", Old: "return dest.failures > 1", New: "return dest.failures > 1 && !PLANTED",
		},
		{
			Rule: "a lasting session resets the backoff", Found: "TestRepeatedlyFailingSessionsAreDialedWithBackoff",
			Decl: "peer/mux.destination.removeSession", Old: "	dest.failures = 0\n", New: "	if !PLANTED {\n		dest.failures = 0\n	}\n",
		},
		{
			Rule: "one dial serves all callers", Found: "TestOpenStreamDoesNotWaitForSession",
			Decl: "peer/mux.SessionSet.openOrConnect", Old: "dest.connecting == nil &&", New: "(PLANTED || dest.connecting == nil) &&",
		},
		{
			Rule: "a session dialed before Renew is discarded", Found: "TestRenewDiscardsSessionBeingDialed",
			Decl: "peer/mux.SessionSet.runSession", Old: "	if ss.closed || ss.generation != generation {", New: "	if ss.closed || ss.generation != generation && !PLANTED {",
		},
		{
			Rule: "a rejected stream is refused", Found: "TestRejectedStreamIsRefused",
			Decl: "peer/mux.Session.refuseStream", Old: "		err = s.enqueueRefusalLocked(st.id)\n", New: "		if !PLANTED {\n			err = s.enqueueRefusalLocked(st.id)\n		}\n",
		},
		{
			Rule: "a rejected stream is released by the server", Found: "TestRejectedStreamIsRefused",
			Decl: "peer/mux.Session.refuseStream", Old: "		s.forgetStreamLocked(st)\n	}\n	s.mu.Unlock()\n	s.closeStream", New: "		s.forgetStreamLocked(st)\n		st.closeBatched = !PLANTED\n	}\n	s.mu.Unlock()\n	s.closeStream",
		},
		{
			Rule: "a refused stream is released by the client", Found: "TestRejectedStreamIsRefused",
			Decl: "peer/mux.Session.handleRefuse", Old: "		s.forgetStreamLocked(st)\n", New: "		st.peerClosed = !PLANTED\n		if !PLANTED {\n			s.forgetStreamLocked(st)\n		}\n",
		},
		{
			Rule: "an answered stream cannot be refused", Found: "TestProtocolErrorFailsSession",
			Decl: "peer/mux.Session.lookupStream", Old: "&& !st.receivedFromPeer\n", New: "&& (!st.receivedFromPeer || PLANTED)\n",
		},
		{
			Rule: "queued refusals are limited", Found: waits,
			Decl: "peer/mux.Session.enqueueRefusalLocked", Old: "len(s.refusals) == limit {", New: "len(s.refusals) == limit && !PLANTED {",
		},
		{
			Rule: "the limit of refusals is the stream limit", Found: "TestManyWebSocketStreamsCanBeRefused",
			Decl: "peer/mux.Session.enqueueRefusalLocked", Old: "max(int(s.budget.limit), MaxStreams);", New: "max(int(s.budget.limit), MaxStreams)>>map[bool]int{true: 6}[PLANTED];",
		},
		{
			Rule: "the queue of WebSocket streams is limited", Found: "TestQueueOfWebSocketStreamsIsLimited",
			Decl: "peer/mux.Session.exceedsQueueLimitLocked", Old: "|| s.carriesWebSockets()", New: "|| s.carriesWebSockets() && !PLANTED",
		},
		{
			Rule: "a window starts small with a pool", Found: "TestFirstWindowIsEnforcedWithPool",
			Decl: "peer/mux.Budget.initialWindow", Old: "		return FirstWindow\n", New: "		return FirstWindow + map[bool]int{true: 1}[PLANTED]\n",
		},
		{
			Rule: "a window grows while the pool has bytes", Found: "TestWindowGrowsFromPool|TestStreamsOfPoolDeliverTheirBytes",
			Decl: "peer/mux.Stream.takeCreditLocked", Old: "grow > 0 && pool.acquire(int32(grow)) {", New: "grow > 0 && (pool.acquire(int32(grow)) || PLANTED) {",
		},
		{
			Rule: "a window grows only if needed", Found: "TestWindowGrowsFromPool",
			Decl: "peer/mux.Stream.takeCreditLocked", Old: "	case 8*st.recvCredit < 3*st.window:", New: "	case PLANTED || 8*st.recvCredit < 3*st.window:",
		},
		{
			Rule: "an unneeded window is returned", Found: "TestWindowGrowsFromPool",
			Decl: "peer/mux.Stream.takeCreditLocked", Old: "	case pool.mostlyUsed():", New: "	case pool.mostlyUsed() && !PLANTED:",
		},
		{
			Rule: "a closed stream returns its window", Found: "TestWindowGrowsFromPool",
			Decl: "peer/mux.Stream.Close", Old: "	st.returnWindowLocked()\n", New: "	if !PLANTED {\n		st.returnWindowLocked()\n	}\n",
		},
		{
			Rule: "Ready calls wake", Found: "TestReadyCallsWakeOnce",
			Decl: "peer/mux.Stream.wakeReaderLocked", Old: "	if f := st.onReadable; f != nil {", New: "	if f := st.onReadable; f != nil && !PLANTED {",
		},
		{
			Rule: "Ready checks the state first", Found: "TestReadyCallsWakeOnce",
			Decl: "peer/mux.Stream.NotifyReadable", Old: "	if st.canReadLocked() ||", New: "	if st.canReadLocked() && (!PLANTED || st.closed || st.err != nil) ||",
		},
		{
			Rule: "a waiting caller gets a stream", Found: "TestOpenStreamWaitUsesSessionBeingConnected",
			Decl: "peer/mux.SessionSet.OpenStreamWait", Old: "	case <-connected:\n", New: "	case <-connected:\n		if PLANTED {\n			return nil\n		}\n",
		},
		{
			Rule: "a waiting caller respects its context", Found: "TestOpenStreamWaitUsesSessionBeingConnected",
			Decl: "peer/mux.SessionSet.OpenStreamWait", Old: "	case <-ctx.Done():\n		return nil\n", New: "	case <-ctx.Done():\n		if PLANTED {\n			<-connected\n		}\n		return nil\n",
		},
		{
			Rule: "a failed session frees the budget", Found: "TestFailedSessionFreesBudgetForNextSession|TestBudgetIsReleasedOnClose",
			Decl: "peer/mux.Session.Fail", Old: "		if st.budget != nil {\n			st.budget = st.budget.releaseBelowRoot()", New: "		if st.budget != nil && !PLANTED {\n			st.budget = st.budget.releaseBelowRoot()",
		},
		{
			Rule: "an unwritten message is unprocessed", Found: "TestUnwrittenMessageIsUnprocessed",
			Decl: "peer/mux.Session.hasSentNothingLocked", Old: "	return st.firstBatch == 0 || st.firstBatch > s.batchCount", New: "	return (st.firstBatch == 0 || st.firstBatch > s.batchCount) && !PLANTED",
		},
		{
			Rule: "a written message is not", Found: "TestUnwrittenMessageIsUnprocessed",
			Decl: "peer/mux.Session.recordBatchWritten", Old: "	if err != nil && n == 0 {", New: "	if err != nil && (n == 0 || PLANTED) {",
		},
		{
			Rule: "a message of one frame does not wait", Found: "TestMessageOfOneFrameIsQueuedAtOnce",
			Decl: "peer/mux.Session.exceedsQueueLimitLocked", Old: "s.acceptStream != nil || bulk ||", New: "s.acceptStream != nil || bulk || PLANTED ||",
		},
		{
			Rule: "no stream is opened behind a long queue", Found: "TestNoStreamIsOpenedBehindLongQueue",
			Decl: "peer/mux.Session.hasQueueSpace", Old: "	return len(s.queue) < bulkQueueLimit", New: "	return len(s.queue) < bulkQueueLimit || PLANTED",
		},
		{
			Rule: "a silent session is closed", Found: "TestSilentSessionIsClosed",
			Decl: "peer/mux.Session.checkIdle", Old: "	closeNow := !hasRead ||", New: "	closeNow := !hasRead && !PLANTED ||",
		},
		{
			Rule: "an idle session accepts no streams", Found: "TestIdleSessionIsClosed",
			Decl: "peer/mux.Session.checkIdle", Old: "		s.goAwayLocked(s.lastID)\n", New: "		if !PLANTED {\n			s.goAwayLocked(s.lastID)\n		}\n",
		},
		{
			Rule: "an idle session is closed if the dialer does not", Found: "TestIdleSessionIsClosed",
			Decl: "peer/mux.Session.checkIdle", Old: " s.idleGoAway && s.openStreams == 0\n", New: " s.idleGoAway && s.openStreams == 0 && !PLANTED\n",
		},
		{
			Rule: "an idle session keeps its streams", Found: "TestIdleSessionIsClosed",
			Decl: "peer/mux.Session.checkIdle", Old: "	if closeNow {\n", New: "	if closeNow || PLANTED && hasRead && sinceRead >= idleTimeout+dialerCloseTimeout {\n",
		},
		{
			Rule: "TLS replies are limited", Found: "TestTLSRepliesAreLimited",
			Decl: "peer/mux.Session.sendTLSReplies", Old: "n > maxTLSReplies {", New: "n > maxTLSReplies && !PLANTED {",
		},
		{
			Rule: "unsent bytes are not lost", Found: "TestInlineWriteDoesNotBlockOnSocket",
			Decl: "peer/mux.Session.writeInline", Old: "batch, b[n:]", New: "batch, b[min(n+map[bool]int{true: 3}[PLANTED], len(b)-1):]",
		},
	}
}

func TestEachMutantFailsATest(t *testing.T) {
	overlay.TestMutants(t, "../..", "peer/mux", append(protocolMutants(), limitMutants()...))
}
