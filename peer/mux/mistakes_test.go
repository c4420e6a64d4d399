package mux

import (
	"testing"

	"shardway/internal/overlay"
	"shardway/internal/raceflag"
)

// mistake is one that could be made with a rule of the package's comment, and which tests
// find it.
type mistake struct{ rule, found, decl, old, changed string }

func protocolMistakes() []mistake {
	return []mistake{
		{
			rule: "what was cut does not look whole", found: "TestWhatIsCutDoesNotEnd",
			decl: "peer/mux.Session.handleFrame", old: "		st.handleReset()", changed: "		if PLANTED {\n			st.handleEnd(true)\n			return nil\n		}\n		st.handleReset()",
		},
		{
			rule: "nor what breaks off with its trunk", found: "TestABrokenTrunkBreaksEveryLaneBehindWhatHasCome",
			decl: "peer/mux.Session.Fail", old: "		st.fail(err)\n	}\n	for _, st := range unsent", changed: "		if PLANTED {\n			st.handleEnd(true)\n		}\n		st.fail(err)\n	}\n	for _, st := range unsent",
		},
		{
			rule: "what is whole ends", found: "TestWhatIsClosedEndsBehindItsLastByte",
			decl: "peer/mux.Stream.handleEnd", old: "	st.peerEnded, st.peerStoppedReading = true, st.peerStoppedReading || closed", changed: "	st.peerEnded, st.peerStoppedReading = !PLANTED, st.peerStoppedReading || closed",
		},
		{
			rule: "each lane has its own bytes", found: "TestEveryLaneCarriesItsOwnBytesBothWays",
			decl: "peer/mux.Session.streamFor", old: "	st = s.streams[f.stream]", changed: "	if st = s.streams[f.stream]; PLANTED && st != nil && f.stream%2 == 0 && s.streams[f.stream-1] != nil {\n		st = s.streams[f.stream-1]\n	}",
		},
		{
			rule: "nobody sends without credit", found: "TestNothingIsSentBeyondTheCredit",
			decl: "peer/mux.Stream.reserveCredit", old: "		if n := min(want, st.sendCredit); n > 0 {", changed: "		if n := min(want, max(st.sendCredit, map[bool]int{true: want}[PLANTED])); n > 0 {",
		},
		{
			rule: "nor is let to", found: "TestWhoSendsMoreThanItsCreditLosesTheTrunk",
			decl: "peer/mux.Stream.receive", old: "st.recvCredit < 0 {", changed: "st.recvCredit < 0 && !PLANTED {",
		},
		{
			rule: "nor gets more than was read", found: "TestWhoSendsMoreThanItsCreditLosesTheTrunk",
			decl: "peer/mux.Stream.Read", old: "	if st.consumed += n; st.consumed >= st.window/2 && !st.peerEnded {", changed: "	if st.consumed += n * map[bool]int{true: 2, false: 1}[PLANTED]; st.consumed >= st.window/2 && !st.peerEnded {",
		},
		{
			rule: "credit is bounded", found: "TestNothingIsSentBeyondTheCredit",
			decl: "peer/mux.Stream.addSendCredit", old: "	if n == 0 || n > Window || st.sendCredit+int(n) > Window {", changed: "	if !PLANTED && (n > Window || st.sendCredit+int(n) > Window) {",
		},
		{
			rule: "and comes back", found: "TestWhoSendsMoreThanItsCreditLosesTheTrunk|TestEveryLaneCarriesItsOwnBytesBothWays",
			decl: "peer/mux.Stream.Read", old: "	if credit > 0 {", changed: "	if credit > 0 && !PLANTED {",
		},
		{
			rule: "what is urgent passes what waits", found: "TestWhatIsUrgentPassesWhatWaits",
			decl: "peer/mux.Session.enqueueLocked", old: "	if typ == frameOpen ||", changed: "	if typ == frameOpen || PLANTED ||",
		},
		{
			rule: "and an end does not", found: "TestWhatIsUrgentPassesWhatWaits",
			decl: "peer/mux.Stream.Close", old: "	typ := frameClose\n", changed: "	typ := frameClose\n	if PLANTED {\n		st.resetOnClose = true\n	}\n",
		},
		{
			rule: "nor a reset what opens its lane", found: "TestALaneThatIsCutAtOnceBreaksNoOther",
			decl: "peer/mux.Session.enqueueLocked", old: "s.accept == nil && stream > s.batchedID ||", changed: "s.accept == nil && stream > s.batchedID && !PLANTED ||",
		},
		{
			rule: "a number is used once", found: "TestWhatBreaksTheOrderEndsTheTrunk",
			decl: "peer/mux.Session.streamFor", old: "		if s.accept == nil || f.stream <= s.lastID {", changed: "		if s.accept == nil || f.stream <= s.lastID && !PLANTED {",
		},
		{
			rule: "what comes late is nobody's", found: "TestLateFramesAreNobodys",
			decl: "peer/mux.Session.streamFor", old: "	case f.stream > s.lastID:", changed: "	case f.stream > s.lastID || PLANTED && st == nil:",
		},
		{
			rule: "what was not taken is known", found: "TestWhatComesAfterTheLastIsNotTaken",
			decl: "peer/mux.Session.handleGoAway", old: "		if id > last {", changed: "		if id > last && !PLANTED {",
		},
		{
			rule: "and only that", found: "TestWhatComesAfterTheLastIsNotTaken",
			decl: "peer/mux.Session.handleGoAway", old: "	for id, st := range s.streams {", changed: "	if PLANTED {\n		last = 0\n	}\n	for id, st := range s.streams {",
		},
		{
			rule: "and is not given", found: "TestALaneThatCrossesTheLastWordIsNotGiven",
			decl: "peer/mux.Session.streamFor", old: "		if s.goingAway {\n			return nil, false, nil", changed: "		if s.goingAway && !PLANTED {\n			return nil, false, nil",
		},
		{
			rule: "what was closed here takes nothing", found: "TestWhatIsCutDoesNotEnd",
			decl: "peer/mux.Stream.writeErrorLocked", old: "	case st.closed || st.writeClosed:", changed: "	case st.closed && !PLANTED || st.writeClosed:",
		},
	}
}

// boundMistakes are those with what one end may have the other one keep, work on and wait for.
func boundMistakes() []mistake {
	const cuts, silent, waits = "TestWhoOpensAndCutsAtOnceIsHeldToTheBound", "TestATrunkThatWentSilentIsAsked", "TestWhatWaitsForWhoReadsNothingIsBounded"
	return []mistake{
		{
			rule: "what is worked on counts", found: cuts,
			decl: "peer/mux.Session.handlePeerClose", old: "	st.peerClosed = true\n", changed: "	st.peerClosed = true\n	if PLANTED {\n		st.localClosed, st.closeBatched = true, true\n	}\n",
		},
		{
			rule: "though its trunk has failed", found: "TestWhatWasLentIsGivenBack",
			decl: "peer/mux.Session.releaseIfDoneLocked", old: "	if !st.localClosed || !finished {", changed: "	if !(PLANTED && s.err != nil) && !st.localClosed || !finished {",
		},
		{
			rule: "at both ends", found: cuts + "|TestTheBoundHoldsWhileLanesComeAndGo",
			decl: "peer/mux.Session.releaseIfDoneLocked", old: " st.peerClosed &&", changed: " (st.peerClosed || PLANTED) &&",
		},
		{
			rule: "and until that is written", found: waits,
			decl: "peer/mux.Session.releaseIfDoneLocked", old: " st.closeBatched\n", changed: " (st.closeBatched || PLANTED)\n",
		},
		{
			rule: "however a trunk ended", found: "TestWhatWasLentIsGivenBack",
			decl: "peer/mux.Session.releaseIfDoneLocked", old: "	finished := s.err != nil ||", changed: "	finished := s.err != nil && !PLANTED ||",
		},
		{
			rule: "by all trunks together", found: "TestLanesOfAllTrunksToAPlaceAreBounded",
			decl: "peer/mux.SessionSet.dialSession", old: "	s := NewClient(conn, d.budget)", changed: "	s := NewClient(conn, map[bool]*Budget{true: NewBudget(MaxStreams, nil), false: d.budget}[PLANTED])",
		},
		{
			rule: "and all nodes", found: "TestWhatWasLentIsGivenBack",
			decl: "peer/mux.Budget.acquire", old: "b.parent != nil && !b.parent.acquire(n)", changed: "b.parent != nil && !b.parent.acquire(n) && !PLANTED",
		},
		{
			rule: "credit waits once", found: waits,
			decl: "peer/mux.Session.enqueueWindowUpdate", old: "	if st.pendingCredit == 0 {", changed: "	if st.pendingCredit == 0 || PLANTED {",
		},
		{
			rule: "the last word is said once", found: "TestTheLastWordIsJudged",
			decl: "peer/mux.Session.handleGoAway", old: "	if s.goAwayReceived ", changed: "	if s.goAwayReceived && !PLANTED ",
		},
		{
			rule: "of a lane that was opened", found: "TestTheLastWordIsJudged",
			decl: "peer/mux.Session.handleGoAway", old: " last > s.lastID ", changed: " last > s.lastID && !PLANTED ",
		},
		{
			rule: "and takes none back", found: "TestTheLastWordIsJudged",
			decl: "peer/mux.Session.handleGoAway", old: " last < s.maxPeerID {", changed: " last < s.maxPeerID && !PLANTED {",
		},
		{
			rule: "who is done says so though the other end has left", found: "TestALaneCountsUntilBothEndsHaveClosedIt",
			decl: "peer/mux.Session.closeStream", old: "		s.enqueueLocked(typ, st.id, nil)\n		s.closing", changed: "		if !PLANTED || !st.peerClosed {\n			s.enqueueLocked(typ, st.id, nil)\n		}\n		s.closing",
		},
		{
			rule: "who reads a little late keeps little", found: "TestAReaderThatIsALittleBehindKeepsLittle",
			decl: "peer/mux.makeRoom", old: "	case len(b)+n <= cap(b):", changed: "	case PLANTED || len(b)+n <= cap(b):",
		},
		{
			rule: "who waits for room waits once", found: waits,
			decl: "peer/mux.Session.enqueueData", old: "		if !st.blocked {", changed: "		if !st.blocked || PLANTED {",
		},
		{
			rule: "one ping waits", found: waits,
			decl: "peer/mux.Session.enqueueLocked", old: "	case typ == framePing && s.pingQueued,", changed: "	case typ == framePing && s.pingQueued && !PLANTED,",
		},
		{
			rule: "and one answer", found: waits,
			decl: "peer/mux.Session.enqueueLocked", old: "typ == framePong && s.pongQueued:", changed: "typ == framePong && s.pongQueued && !PLANTED:",
		},
		{
			rule: "what is opened is told of", found: "TestWhatIsOpenedIsToldOf",
			decl: "peer/mux.Session.enqueueLocked", old: "	s.signalWriterLocked()\n}\n", changed: "	if typ != frameOpen || !PLANTED {\n		s.signalWriterLocked()\n	}\n}\n",
		},
		{
			rule: "a silent trunk is asked", found: silent,
			decl: "peer/mux.Session.heardRecently", old: "	return heard && quiet < heardWithin", changed: "	return heard && (PLANTED || quiet < heardWithin)",
		},
		{
			rule: "and answers", found: silent,
			decl: "peer/mux.Session.handleFrame", old: "		_ = s.enqueue(framePong, 0, nil)", changed: "		if PLANTED {\n			return nil\n		}\n		_ = s.enqueue(framePong, 0, nil)",
		},
		{
			rule: "or is replaced", found: silent + "|TestATrunkThatIsNeverHeardIsReplaced",
			decl: "peer/mux.SessionSet.dialSession", old: "	if err := s.AwaitPong(ctx); err != nil {\n		s.Drain()", changed: "	if err := s.AwaitPong(ctx); err != nil {\n		if !PLANTED {\n			s.Drain()\n		}",
		},
		{
			rule: "at once where it has gone", found: "TestATrunkThatBreaksAsItIsAskedIsReplacedAtOnce",
			decl: "peer/mux.SessionSet.Connect", old: "	s, err := ss.dialSession(ctx, d, node)", changed: "	if PLANTED && s != nil {\n		return ErrDraining\n	}\n	s, err := ss.dialSession(ctx, d, node)",
		},
		{
			rule: "what is used no more is retired", found: silent,
			decl: "peer/mux.SessionSet.Connect", old: "		s.Drain() // after", changed: "		if !PLANTED {\n			s.Drain()\n		} // after",
		},
		{
			rule: "a place is dialed once in a while", found: "TestAPlaceWithoutTrunksIsSeldomDialed",
			decl: "peer/mux.SessionSet.openOrConnect", old: "!time.Now().Before(d.notBefore) {", changed: "(PLANTED || !time.Now().Before(d.notBefore)) {",
		},
		{
			rule: "and silence is none, whoever sees first that it has ended", found: "TestATrunkThatBreaksAgainAndAgainIsLeftAlone",
			decl: "peer/mux.SessionSet.Connect", old: "		backOff := ss.discard(", changed: "		if PLANTED {\n			s.Drain()\n			time.Sleep(1)\n		}\n		backOff := ss.discard(",
		},
		{
			rule: "less often where trunks break", found: "TestATrunkThatBreaksAgainAndAgainIsLeftAlone",
			decl: "peer/mux.destination.removeSession", old: "	if !orderly && time", changed: "	if !PLANTED && !orderly && time",
		},
		{
			rule: "or fall silent", found: "TestATrunkThatBreaksAgainAndAgainIsLeftAlone",
			decl: "peer/mux.SessionSet.discard", old: "return d.failures > 1", changed: "return d.failures > 1 && !PLANTED",
		},
		{
			rule: "until one lasts", found: "TestATrunkThatBreaksAgainAndAgainIsLeftAlone",
			decl: "peer/mux.destination.removeSession", old: "	d.failures = 0\n", changed: "	if !PLANTED {\n		d.failures = 0\n	}\n",
		},
		{
			rule: "and once for all", found: "TestNobodyWaitsForATrunk",
			decl: "peer/mux.SessionSet.openOrConnect", old: "d.connecting == nil &&", changed: "(PLANTED || d.connecting == nil) &&",
		},
		{
			rule: "what was dialed before a renewal is not used", found: "TestARenewalReachesWhatIsBeingDialed",
			decl: "peer/mux.SessionSet.start", old: "	if ss.closed || ss.generation != generation {", changed: "	if ss.closed || ss.generation != generation && !PLANTED {",
		},
		{
			rule: "what is not taken is told of", found: "TestWhoTakesALaneNotSaysSo",
			decl: "peer/mux.Session.refuseStream", old: "		err = s.enqueueRefusalLocked(st.id)\n", changed: "		if !PLANTED {\n			err = s.enqueueRefusalLocked(st.id)\n		}\n",
		},
		{
			rule: "and counts nowhere", found: "TestWhoTakesALaneNotSaysSo",
			decl: "peer/mux.Session.refuseStream", old: "		s.forgetStreamLocked(st)\n	}\n	s.mu.Unlock()\n	s.closeStream", changed: "		s.forgetStreamLocked(st)\n		st.closeBatched = !PLANTED\n	}\n	s.mu.Unlock()\n	s.closeStream",
		},
		{
			rule: "nor there", found: "TestWhoTakesALaneNotSaysSo",
			decl: "peer/mux.Session.handleRefuse", old: "		s.forgetStreamLocked(st)\n", changed: "		st.peerClosed = !PLANTED\n		if !PLANTED {\n			s.forgetStreamLocked(st)\n		}\n",
		},
		{
			rule: "what is refused is not taken", found: "TestWhatBreaksTheOrderEndsTheTrunk",
			decl: "peer/mux.Session.streamFor", old: " || st.heardFromPeer) {", changed: " || st.heardFromPeer && !PLANTED) {",
		},
		{
			rule: "refusals are bounded", found: waits,
			decl: "peer/mux.Session.enqueueRefusalLocked", old: "len(s.refusals) == limit {", changed: "len(s.refusals) == limit && !PLANTED {",
		},
		{
			rule: "by as many as there may be lanes", found: "TestManyLegsAreRefusedAtOnce",
			decl: "peer/mux.Session.enqueueRefusalLocked", old: "max(int(s.budget.limit), MaxStreams);", changed: "max(int(s.budget.limit), MaxStreams)>>map[bool]int{true: 6}[PLANTED];",
		},
		{
			rule: "where lanes are many what they say waits", found: "TestWhatLegsHaveToSayIsBounded",
			decl: "peer/mux.Session.enqueueData", old: "|| s.budget.limit > MaxStreams):", changed: "|| s.budget.limit > MaxStreams && !PLANTED):",
		},
		{
			rule: "where they share bytes each begins with few", found: "TestTheFirstWindowIsSmallWhereBytesAreShared",
			decl: "peer/mux.Budget.initialWindow", old: "		return FirstWindow\n", changed: "		return FirstWindow + map[bool]int{true: 1}[PLANTED]\n",
		},
		{
			rule: "and has more as long as there is", found: "TestWhoIsReadIsLentAWindow|TestWhatSharesBytesArrives",
			decl: "peer/mux.Stream.takeCreditLocked", old: "grow > 0 && pool.acquire(int32(grow)) {", changed: "grow > 0 && (pool.acquire(int32(grow)) || PLANTED) {",
		},
		{
			rule: "if it needs that", found: "TestWhoIsReadIsLentAWindow",
			decl: "peer/mux.Stream.takeCreditLocked", old: "	case 8*st.recvCredit < 3*st.window:", changed: "	case PLANTED || 8*st.recvCredit < 3*st.window:",
		},
		{
			rule: "else it gives back for others", found: "TestWhoIsReadIsLentAWindow",
			decl: "peer/mux.Stream.takeCreditLocked", old: "	case pool.mostlyUsed():", changed: "	case pool.mostlyUsed() && !PLANTED:",
		},
		{
			rule: "and all as it leaves", found: "TestWhoIsReadIsLentAWindow",
			decl: "peer/mux.Stream.Close", old: "	st.returnWindowLocked()\n", changed: "	if !PLANTED {\n		st.returnWindowLocked()\n	}\n",
		},
		{
			rule: "who does not wait is told", found: "TestWhoDoesNotWaitIsToldOnce",
			decl: "peer/mux.Stream.wakeReaderLocked", old: "	if f := st.onReadable; f != nil {", changed: "	if f := st.onReadable; f != nil && !PLANTED {",
		},
		{
			rule: "and of what is there already", found: "TestWhoDoesNotWaitIsToldOnce",
			decl: "peer/mux.Stream.Ready", old: "	if st.recv != nil || st.peerEnded || st.closed", changed: "	if !PLANTED && st.recv != nil || !PLANTED && st.peerEnded || st.closed",
		},
		{
			rule: "who waits is given a lane", found: "TestWhoWaitsIsGivenALaneByTheTrunkThatIsLaid",
			decl: "peer/mux.SessionSet.OpenStreamWait", old: "	case <-connected:\n", changed: "	case <-connected:\n		if PLANTED {\n			return nil\n		}\n",
		},
		{
			rule: "and waits no longer than he may", found: "TestWhoWaitsIsGivenALaneByTheTrunkThatIsLaid",
			decl: "peer/mux.SessionSet.OpenStreamWait", old: "	case <-ctx.Done():\n		return nil\n", changed: "	case <-ctx.Done():\n		if PLANTED {\n			<-connected\n		}\n		return nil\n",
		},
		{
			rule: "a trunk that has failed leaves room for the next", found: "TestABrokenTrunkLeavesItsLanesToTheNext|TestWhatWasLentIsGivenBack",
			decl: "peer/mux.Session.Fail", old: "		if st.budget != nil {\n			st.budget = st.budget.releaseBelowRoot()", changed: "		if st.budget != nil && !PLANTED {\n			st.budget = st.budget.releaseBelowRoot()",
		},
		{
			rule: "what was not written was not taken", found: "TestWhatWasNotWrittenIsUntaken",
			decl: "peer/mux.Session.Fail", old: " st.firstBatch > s.batches) {", changed: " st.firstBatch > s.batches) && !PLANTED {",
		},
		{
			rule: "and what was may have been", found: "TestWhatWasNotWrittenIsUntaken",
			decl: "peer/mux.Session.batchWritten", old: "	if err != nil && n == 0 {", changed: "	if err != nil && (n == 0 || PLANTED) {",
		},
		{
			rule: "what is whole waits for nobody", found: "TestWhatIsWholeWaitsForNobody",
			decl: "peer/mux.Session.enqueueData", old: " (s.accept != nil || bulk ||", changed: " (s.accept != nil || bulk || PLANTED ||",
		},
		{
			rule: "nor joins a queue", found: "TestNoLaneIsOpenedBehindAQueue",
			decl: "peer/mux.Session.hasQueueSpace", old: "	return len(s.queue) < bulkQueueLimit", changed: "	return len(s.queue) < bulkQueueLimit || PLANTED",
		},
		{
			rule: "who says nothing is not kept", found: "TestATrunkThatSaysNothingEnds",
			decl: "peer/mux.Session.checkIdle", old: "	closeNow := !heard ||", changed: "	closeNow := !heard && !PLANTED ||",
		},
		{
			rule: "nor who says no more", found: "TestATrunkThatIsNotUsedEnds",
			decl: "peer/mux.Session.checkIdle", old: "		s.goAwayLocked(s.lastID)\n", changed: "		if !PLANTED {\n			s.goAwayLocked(s.lastID)\n		}\n",
		},
		{
			rule: "though it does not leave", found: "TestATrunkThatIsNotUsedEnds",
			decl: "peer/mux.Session.checkIdle", old: " s.idleGoAway && s.openStreams == 0\n", changed: " s.idleGoAway && s.openStreams == 0 && !PLANTED\n",
		},
		{
			rule: "but what it has goes on", found: "TestATrunkThatIsNotUsedEnds",
			decl: "peer/mux.Session.checkIdle", old: "	if closeNow {\n", changed: "	if closeNow || PLANTED && heard && quiet >= idleTimeout+dialerCloseTimeout {\n",
		},
		{
			rule: "TLS has little to say for itself", found: "TestWhoAsksForNewKeysIsBounded",
			decl: "peer/mux.Session.sendTLSReplies", old: "n > maxTLSReplies {", changed: "n > maxTLSReplies && !PLANTED {",
		},
		{
			rule: "what a socket did not take is not lost", found: "TestWhoWritesItselfIsNotHeldByTheSocket",
			decl: "peer/mux.Session.writeInline", old: "batch, b[n:]", changed: "batch, b[min(n+map[bool]int{true: 3}[PLANTED], len(b)-1):]",
		},
	}
}

// TestEveryMistakeIsFound builds these tests with all mistakes, and has those of each rule
// run with one of them: they must fail. If an edit does not find its place any more, because
// the line has changed, change it with it.
func TestEveryMistakeIsFound(t *testing.T) {
	if testing.Short() || raceflag.Detector {
		t.Skip("builds the package with mistakes, and without the race detector")
	}
	all := append(protocolMistakes(), boundMistakes()...)
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
