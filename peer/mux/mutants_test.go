package mux

import (
	"testing"

	"shardway/internal/overlay"
	"shardway/internal/raceflag"
)

// mutant is a planted violation of a rule. found matches the tests that must fail with it.
type mutant struct{ rule, found, decl, old, changed string }

func protocolMutants() []mutant {
	return []mutant{
		{
			rule: "a reset stream has no end", found: "TestResetStreamHasNoEnd",
			decl: "peer/mux.Session.handleFrame", old: "		st.handleReset()", changed: "		if PLANTED {\n			st.handleEnd(true)\n			return nil\n		}\n		st.handleReset()",
		},
		{
			rule: "a stream of a failed session has no end", found: "TestFailedSessionFailsStreamsAfterReceivedData",
			decl: "peer/mux.Session.Fail", old: "		st.fail(err)\n	}\n	for _, st := range unsent", changed: "		if PLANTED {\n			st.handleEnd(true)\n		}\n		st.fail(err)\n	}\n	for _, st := range unsent",
		},
		{
			rule: "a closed stream ends", found: "TestClosedStreamEndsAfterLastByte",
			decl: "peer/mux.Stream.handleEnd", old: "	st.peerClosedWrite, st.peerClosedRead = true, st.peerClosedRead || readClosed", changed: "	st.peerClosedWrite, st.peerClosedRead = !PLANTED, st.peerClosedRead || readClosed",
		},
		{
			rule: "a frame belongs to its own stream", found: "TestStreamsCarryTheirOwnBytesBothWays",
			decl: "peer/mux.Session.lookupStream", old: "	st = s.streams[f.stream]", changed: "	if st = s.streams[f.stream]; PLANTED && st != nil && f.stream%2 == 0 && s.streams[f.stream-1] != nil {\n		st = s.streams[f.stream-1]\n	}",
		},
		{
			rule: "a sender does not exceed its credit", found: "TestWriteDoesNotExceedCredit",
			decl: "peer/mux.Stream.reserveCredit", old: "		if n := min(want, st.sendCredit); n > 0 {", changed: "		if n := min(want, max(st.sendCredit, map[bool]int{true: want}[PLANTED])); n > 0 {",
		},
		{
			rule: "a receiver enforces credit", found: "TestSendingBeyondCreditFailsSession",
			decl: "peer/mux.Stream.receive", old: "st.recvCredit < 0 {", changed: "st.recvCredit < 0 && !PLANTED {",
		},
		{
			rule: "only consumed bytes are returned as credit", found: "TestSendingBeyondCreditFailsSession",
			decl: "peer/mux.Stream.Read", old: "	if st.consumed += n; st.consumed >= st.window/2 && !st.peerClosedWrite {", changed: "	if st.consumed += n * map[bool]int{true: 2, false: 1}[PLANTED]; st.consumed >= st.window/2 && !st.peerClosedWrite {",
		},
		{
			rule: "credit is limited to the window", found: "TestWriteDoesNotExceedCredit",
			decl: "peer/mux.Stream.addSendCredit", old: "	if n == 0 || n > Window || st.sendCredit+int(n) > Window {", changed: "	if !PLANTED && (n > Window || st.sendCredit+int(n) > Window) {",
		},
		{
			rule: "credit is returned", found: "TestSendingBeyondCreditFailsSession|TestStreamsCarryTheirOwnBytesBothWays",
			decl: "peer/mux.Stream.Read", old: "	if credit > 0 {", changed: "	if credit > 0 && !PLANTED {",
		},
		{
			rule: "urgent frames overtake data", found: "TestUrgentFramesOvertakeData",
			decl: "peer/mux.Session.enqueueLocked", old: "	if typ == frameOpen ||", changed: "	if typ == frameOpen || PLANTED ||",
		},
		{
			rule: "a close does not overtake data", found: "TestUrgentFramesOvertakeData",
			decl: "peer/mux.Stream.Close", old: "	typ := frameClose\n", changed: "	typ := frameClose\n	if PLANTED {\n		st.resetOnClose = true\n	}\n",
		},
		{
			rule: "a reset does not overtake the open frame", found: "TestStreamResetBeforeItWasSentIsHarmless",
			decl: "peer/mux.Session.enqueueLocked", old: "s.acceptStream == nil && stream > s.batchedID ||", changed: "s.acceptStream == nil && stream > s.batchedID && !PLANTED ||",
		},
		{
			rule: "stream IDs are not reused", found: "TestProtocolErrorFailsSession",
			decl: "peer/mux.Session.lookupStream", old: "		if s.acceptStream == nil || f.stream <= s.lastID {", changed: "		if s.acceptStream == nil || f.stream <= s.lastID && !PLANTED {",
		},
		{
			rule: "late frames are ignored", found: "TestLateFramesAreIgnored",
			decl: "peer/mux.Session.lookupStream", old: "	case f.stream > s.lastID:", changed: "	case f.stream > s.lastID || PLANTED && st == nil:",
		},
		{
			rule: "streams after a GOAWAY are unprocessed", found: "TestStreamAfterGoAwayIsUnprocessed",
			decl: "peer/mux.Session.handleGoAway", old: "		if id > last {", changed: "		if id > last && !PLANTED {",
		},
		{
			rule: "streams before a GOAWAY are not", found: "TestStreamAfterGoAwayIsUnprocessed",
			decl: "peer/mux.Session.handleGoAway", old: "	for id, st := range s.streams {", changed: "	if PLANTED {\n		last = 0\n	}\n	for id, st := range s.streams {",
		},
		{
			rule: "a stream after a GOAWAY is not accepted", found: "TestStreamThatCrossesGoAwayIsIgnored",
			decl: "peer/mux.Session.lookupStream", old: "		if s.goingAway {\n			return nil, false, nil", changed: "		if s.goingAway && !PLANTED {\n			return nil, false, nil",
		},
		{
			rule: "a closed stream is not written to", found: "TestResetStreamHasNoEnd",
			decl: "peer/mux.Stream.writeErrorLocked", old: "	case st.closed || st.writeClosed:", changed: "	case st.closed && !PLANTED || st.writeClosed:",
		},
	}
}

// limitMutants violate the rules that limit memory, work and waiting that one end causes at the
// other.
func limitMutants() []mutant {
	const cuts, silent, waits = "TestStreamsResetAtOnceCountUntilPeerClosesThem", "TestSilentSessionIsPingedAndReplaced", "TestQueueForPeerThatDoesNotReadIsLimited"
	return []mutant{
		{
			rule: "a stream counts until this end has closed it", found: cuts,
			decl: "peer/mux.Session.handlePeerClose", old: "	st.peerClosed = true\n", changed: "	st.peerClosed = true\n	if PLANTED {\n		st.localClosed, st.closeBatched = true, true\n	}\n",
		},
		{
			rule: "also if its session has failed", found: "TestBudgetIsReleasedOnClose",
			decl: "peer/mux.Session.releaseIfDoneLocked", old: "	if !st.localClosed || !finished {", changed: "	if !(PLANTED && s.err != nil) && !st.localClosed || !finished {",
		},
		{
			rule: "a stream counts until the peer has closed it", found: cuts + "|TestStreamLimitHoldsWhileStreamsAreReplaced",
			decl: "peer/mux.Session.releaseIfDoneLocked", old: " st.peerClosed &&", changed: " (st.peerClosed || PLANTED) &&",
		},
		{
			rule: "a stream counts until its close frame is taken", found: waits,
			decl: "peer/mux.Session.releaseIfDoneLocked", old: " st.closeBatched\n", changed: " (st.closeBatched || PLANTED)\n",
		},
		{
			rule: "a failed session releases its streams", found: "TestBudgetIsReleasedOnClose",
			decl: "peer/mux.Session.releaseIfDoneLocked", old: "	finished := s.err != nil ||", changed: "	finished := s.err != nil && !PLANTED ||",
		},
		{
			rule: "the limit covers all sessions to a node", found: "TestStreamLimitCoversAllSessionsToNode",
			decl: "peer/mux.SessionSet.dialSession", old: "	s := NewClient(conn, d.budget)", changed: "	s := NewClient(conn, map[bool]*Budget{true: NewBudget(MaxStreams, nil), false: d.budget}[PLANTED])",
		},
		{
			rule: "a budget counts in its parent", found: "TestBudgetIsReleasedOnClose",
			decl: "peer/mux.Budget.acquire", old: "b.parent != nil && !b.parent.acquire(n)", changed: "b.parent != nil && !b.parent.acquire(n) && !PLANTED",
		},
		{
			rule: "window updates of a stream are merged", found: waits,
			decl: "peer/mux.Session.enqueueWindowUpdate", old: "	if st.pendingCredit == 0 {", changed: "	if st.pendingCredit == 0 || PLANTED {",
		},
		{
			rule: "a GOAWAY is sent once", found: "TestGoAwayIsValidated",
			decl: "peer/mux.Session.handleGoAway", old: "	if s.goAwayReceived ", changed: "	if s.goAwayReceived && !PLANTED ",
		},
		{
			rule: "a GOAWAY names an opened stream", found: "TestGoAwayIsValidated",
			decl: "peer/mux.Session.handleGoAway", old: " last > s.lastID ", changed: " last > s.lastID && !PLANTED ",
		},
		{
			rule: "a GOAWAY does not revoke an answered stream", found: "TestGoAwayIsValidated",
			decl: "peer/mux.Session.handleGoAway", old: " last < s.maxPeerID {", changed: " last < s.maxPeerID && !PLANTED {",
		},
		{
			rule: "a close is sent after the peer has closed, too", found: "TestStreamClosedByPeerIsAnsweredWithClose",
			decl: "peer/mux.Session.closeStream", old: "		s.enqueueLocked(typ, st.id, nil)\n		s.closingStreams", changed: "		if !PLANTED || !st.peerClosed {\n			s.enqueueLocked(typ, st.id, nil)\n		}\n		s.closingStreams",
		},
		{
			rule: "a slow reader keeps little memory", found: "TestSlowReaderBuffersUpToOneWindow",
			decl: "peer/mux.makeRoom", old: "	case len(b)+n <= cap(b):", changed: "	case PLANTED || len(b)+n <= cap(b):",
		},
		{
			rule: "a blocked stream is listed once", found: waits,
			decl: "peer/mux.Session.enqueueData", old: "		if !st.isBlocked {", changed: "		if !st.isBlocked || PLANTED {",
		},
		{
			rule: "one ping is queued", found: waits,
			decl: "peer/mux.Session.enqueueLocked", old: "	case typ == framePing && s.pingQueued,", changed: "	case typ == framePing && s.pingQueued && !PLANTED,",
		},
		{
			rule: "one pong is queued", found: waits,
			decl: "peer/mux.Session.enqueueLocked", old: "typ == framePong && s.pongQueued:", changed: "typ == framePong && s.pongQueued && !PLANTED:",
		},
		{
			rule: "an open frame is sent at once", found: "TestOpenFrameIsSentWithoutData",
			decl: "peer/mux.Session.enqueueLocked", old: "	s.signalWriterLocked()\n}\n", changed: "	if typ != frameOpen || !PLANTED {\n		s.signalWriterLocked()\n	}\n}\n",
		},
		{
			rule: "a silent session is pinged", found: silent,
			decl: "peer/mux.Session.readRecently", old: "	return heard && quiet < recentReadTime", changed: "	return heard && (PLANTED || quiet < recentReadTime)",
		},
		{
			rule: "a ping is answered", found: silent,
			decl: "peer/mux.Session.handleFrame", old: "		_ = s.enqueue(framePong, 0, nil)", changed: "		if PLANTED {\n			return nil\n		}\n		_ = s.enqueue(framePong, 0, nil)",
		},
		{
			rule: "a session without a pong is replaced", found: silent + "|TestSessionWithoutPongIsReplaced",
			decl: "peer/mux.SessionSet.dialSession", old: "	if err := s.AwaitPong(ctx); err != nil {\n		s.Drain()", changed: "	if err := s.AwaitPong(ctx); err != nil {\n		if !PLANTED {\n			s.Drain()\n		}",
		},
		{
			rule: "a failed session is replaced at once", found: "TestSessionThatFailsDuringPingIsReplacedAtOnce",
			decl: "peer/mux.SessionSet.Connect", old: "	s, err := ss.dialSession(ctx, d, node)", changed: "	if PLANTED && s != nil {\n		return ErrDraining\n	}\n	s, err := ss.dialSession(ctx, d, node)",
		},
		{
			rule: "a replaced session drains", found: silent,
			decl: "peer/mux.SessionSet.Connect", old: "		s.Drain() // after", changed: "		if !PLANTED {\n			s.Drain()\n		} // after",
		},
		{
			rule: "dials have an interval", found: "TestUnreachableNodeIsDialedWithBackoff",
			decl: "peer/mux.SessionSet.openOrConnect", old: "!time.Now().Before(d.notBefore) {", changed: "(PLANTED || !time.Now().Before(d.notBefore)) {",
		},
		{
			rule: "a silent session counts as a failure", found: "TestRepeatedlyFailingSessionsAreDialedWithBackoff",
			decl: "peer/mux.SessionSet.Connect", old: "		backOff := ss.removeUnresponsive(", changed: "		if PLANTED {\n			s.Drain()\n			time.Sleep(1)\n		}\n		backOff := ss.removeUnresponsive(",
		},
		{
			rule: "early failures increase the backoff", found: "TestRepeatedlyFailingSessionsAreDialedWithBackoff",
			decl: "peer/mux.destination.removeSession", old: "	if !orderly && time", changed: "	if !PLANTED && !orderly && time",
		},
		{
			rule: "silent sessions increase the backoff", found: "TestRepeatedlyFailingSessionsAreDialedWithBackoff",
			decl: "peer/mux.SessionSet.removeUnresponsive", old: "return d.failures > 1", changed: "return d.failures > 1 && !PLANTED",
		},
		{
			rule: "a lasting session resets the backoff", found: "TestRepeatedlyFailingSessionsAreDialedWithBackoff",
			decl: "peer/mux.destination.removeSession", old: "	d.failures = 0\n", changed: "	if !PLANTED {\n		d.failures = 0\n	}\n",
		},
		{
			rule: "one dial serves all callers", found: "TestOpenStreamDoesNotWaitForSession",
			decl: "peer/mux.SessionSet.openOrConnect", old: "d.connecting == nil &&", changed: "(PLANTED || d.connecting == nil) &&",
		},
		{
			rule: "a session dialed before Renew is discarded", found: "TestRenewDiscardsSessionBeingDialed",
			decl: "peer/mux.SessionSet.runSession", old: "	if ss.closed || ss.generation != generation {", changed: "	if ss.closed || ss.generation != generation && !PLANTED {",
		},
		{
			rule: "a rejected stream is refused", found: "TestRejectedStreamIsRefused",
			decl: "peer/mux.Session.refuseStream", old: "		err = s.enqueueRefusalLocked(st.id)\n", changed: "		if !PLANTED {\n			err = s.enqueueRefusalLocked(st.id)\n		}\n",
		},
		{
			rule: "a rejected stream is released by the server", found: "TestRejectedStreamIsRefused",
			decl: "peer/mux.Session.refuseStream", old: "		s.forgetStreamLocked(st)\n	}\n	s.mu.Unlock()\n	s.closeStream", changed: "		s.forgetStreamLocked(st)\n		st.closeBatched = !PLANTED\n	}\n	s.mu.Unlock()\n	s.closeStream",
		},
		{
			rule: "a refused stream is released by the client", found: "TestRejectedStreamIsRefused",
			decl: "peer/mux.Session.handleRefuse", old: "		s.forgetStreamLocked(st)\n", changed: "		st.peerClosed = !PLANTED\n		if !PLANTED {\n			s.forgetStreamLocked(st)\n		}\n",
		},
		{
			rule: "an answered stream cannot be refused", found: "TestProtocolErrorFailsSession",
			decl: "peer/mux.Session.lookupStream", old: " || st.receivedFromPeer) {", changed: " || st.receivedFromPeer && !PLANTED) {",
		},
		{
			rule: "queued refusals are limited", found: waits,
			decl: "peer/mux.Session.enqueueRefusalLocked", old: "len(s.refusals) == limit {", changed: "len(s.refusals) == limit && !PLANTED {",
		},
		{
			rule: "the limit of refusals is the stream limit", found: "TestManyWebSocketStreamsCanBeRefused",
			decl: "peer/mux.Session.enqueueRefusalLocked", old: "max(int(s.budget.limit), MaxStreams);", changed: "max(int(s.budget.limit), MaxStreams)>>map[bool]int{true: 6}[PLANTED];",
		},
		{
			rule: "the queue of WebSocket streams is limited", found: "TestQueueOfWebSocketStreamsIsLimited",
			decl: "peer/mux.Session.enqueueData", old: "|| s.budget.limit > MaxStreams):", changed: "|| s.budget.limit > MaxStreams && !PLANTED):",
		},
		{
			rule: "a window starts small with a pool", found: "TestFirstWindowIsEnforcedWithPool",
			decl: "peer/mux.Budget.initialWindow", old: "		return FirstWindow\n", changed: "		return FirstWindow + map[bool]int{true: 1}[PLANTED]\n",
		},
		{
			rule: "a window grows while the pool has bytes", found: "TestWindowGrowsFromPool|TestStreamsOfPoolDeliverTheirBytes",
			decl: "peer/mux.Stream.takeCreditLocked", old: "grow > 0 && pool.acquire(int32(grow)) {", changed: "grow > 0 && (pool.acquire(int32(grow)) || PLANTED) {",
		},
		{
			rule: "a window grows only if needed", found: "TestWindowGrowsFromPool",
			decl: "peer/mux.Stream.takeCreditLocked", old: "	case 8*st.recvCredit < 3*st.window:", changed: "	case PLANTED || 8*st.recvCredit < 3*st.window:",
		},
		{
			rule: "an unneeded window is returned", found: "TestWindowGrowsFromPool",
			decl: "peer/mux.Stream.takeCreditLocked", old: "	case pool.mostlyUsed():", changed: "	case pool.mostlyUsed() && !PLANTED:",
		},
		{
			rule: "a closed stream returns its window", found: "TestWindowGrowsFromPool",
			decl: "peer/mux.Stream.Close", old: "	st.returnWindowLocked()\n", changed: "	if !PLANTED {\n		st.returnWindowLocked()\n	}\n",
		},
		{
			rule: "Ready calls wake", found: "TestReadyCallsWakeOnce",
			decl: "peer/mux.Stream.wakeReaderLocked", old: "	if f := st.onReadable; f != nil {", changed: "	if f := st.onReadable; f != nil && !PLANTED {",
		},
		{
			rule: "Ready checks the state first", found: "TestReadyCallsWakeOnce",
			decl: "peer/mux.Stream.NotifyReadable", old: "	if st.recv != nil || st.peerClosedWrite || st.closed", changed: "	if !PLANTED && st.recv != nil || !PLANTED && st.peerClosedWrite || st.closed",
		},
		{
			rule: "a waiting caller gets a stream", found: "TestOpenStreamWaitUsesSessionBeingConnected",
			decl: "peer/mux.SessionSet.OpenStreamWait", old: "	case <-connected:\n", changed: "	case <-connected:\n		if PLANTED {\n			return nil\n		}\n",
		},
		{
			rule: "a waiting caller respects its context", found: "TestOpenStreamWaitUsesSessionBeingConnected",
			decl: "peer/mux.SessionSet.OpenStreamWait", old: "	case <-ctx.Done():\n		return nil\n", changed: "	case <-ctx.Done():\n		if PLANTED {\n			<-connected\n		}\n		return nil\n",
		},
		{
			rule: "a failed session frees the budget", found: "TestFailedSessionFreesBudgetForNextSession|TestBudgetIsReleasedOnClose",
			decl: "peer/mux.Session.Fail", old: "		if st.budget != nil {\n			st.budget = st.budget.releaseBelowRoot()", changed: "		if st.budget != nil && !PLANTED {\n			st.budget = st.budget.releaseBelowRoot()",
		},
		{
			rule: "an unwritten message is unprocessed", found: "TestUnwrittenMessageIsUnprocessed",
			decl: "peer/mux.Session.Fail", old: " st.firstBatch > s.batchCount) {", changed: " st.firstBatch > s.batchCount) && !PLANTED {",
		},
		{
			rule: "a written message is not", found: "TestUnwrittenMessageIsUnprocessed",
			decl: "peer/mux.Session.recordBatchWritten", old: "	if err != nil && n == 0 {", changed: "	if err != nil && (n == 0 || PLANTED) {",
		},
		{
			rule: "a message of one frame does not wait", found: "TestMessageOfOneFrameIsQueuedAtOnce",
			decl: "peer/mux.Session.enqueueData", old: " (s.acceptStream != nil || bulk ||", changed: " (s.acceptStream != nil || bulk || PLANTED ||",
		},
		{
			rule: "no stream is opened behind a long queue", found: "TestNoStreamIsOpenedBehindLongQueue",
			decl: "peer/mux.Session.hasQueueSpace", old: "	return len(s.queue) < bulkQueueLimit", changed: "	return len(s.queue) < bulkQueueLimit || PLANTED",
		},
		{
			rule: "a silent session is closed", found: "TestSilentSessionIsClosed",
			decl: "peer/mux.Session.checkIdle", old: "	closeNow := !ok ||", changed: "	closeNow := !ok && !PLANTED ||",
		},
		{
			rule: "an idle session accepts no streams", found: "TestIdleSessionIsClosed",
			decl: "peer/mux.Session.checkIdle", old: "		s.goAwayLocked(s.lastID)\n", changed: "		if !PLANTED {\n			s.goAwayLocked(s.lastID)\n		}\n",
		},
		{
			rule: "an idle session is closed if the dialer does not", found: "TestIdleSessionIsClosed",
			decl: "peer/mux.Session.checkIdle", old: " s.idleGoAway && s.openStreams == 0\n", changed: " s.idleGoAway && s.openStreams == 0 && !PLANTED\n",
		},
		{
			rule: "an idle session keeps its streams", found: "TestIdleSessionIsClosed",
			decl: "peer/mux.Session.checkIdle", old: "	if closeNow {\n", changed: "	if closeNow || PLANTED && ok && sinceRead >= idleTimeout+dialerCloseTimeout {\n",
		},
		{
			rule: "TLS replies are limited", found: "TestTLSRepliesAreLimited",
			decl: "peer/mux.Session.sendTLSReplies", old: "n > maxTLSReplies {", changed: "n > maxTLSReplies && !PLANTED {",
		},
		{
			rule: "unsent bytes are not lost", found: "TestInlineWriteDoesNotBlockOnSocket",
			decl: "peer/mux.Session.writeInline", old: "batch, b[n:]", changed: "batch, b[min(n+map[bool]int{true: 3}[PLANTED], len(b)-1):]",
		},
	}
}

// TestEachMutantFailsATest builds these tests with all planted mistakes. It then runs the tests of
// each rule with one mistake enabled: they must fail. If an edit no longer applies because its
// line has changed, update the edit.
func TestEachMutantFailsATest(t *testing.T) {
	if testing.Short() || raceflag.Detector {
		t.Skip("builds the package with mistakes, and without the race detector")
	}
	all := append(protocolMutants(), limitMutants()...)
	edits := make([][]overlay.Edit, len(all))
	for i, m := range all {
		edits[i] = []overlay.Edit{{Decl: m.decl, Old: m.old, New: m.changed}}
	}
	o := overlay.New("../..")
	if err := o.Plant(edits); err != nil {
		t.Fatal(err)
	}
	binary, err := o.TestBinary(t.Context(), t.TempDir(), "peer/mux")
	if err != nil {
		t.Fatal(err)
	}
	for i, m := range all {
		t.Run(m.rule, func(t *testing.T) {
			if err := overlay.Find(t.Context(), binary, i, "^("+m.found+")$"); err != nil {
				t.Error(err)
			}
		})
	}
}
