package mux

import (
	"testing"

	"shardway/internal/overlay"
	"shardway/internal/raceflag"
)

// mistake is one that could be made with a rule of the package's comment, and which tests
// find it.
type mistake struct{ rule, found, decl, old, changed string }

func mistakes() []mistake {
	return []mistake{
		{
			rule: "what was cut does not look whole", found: "TestWhatIsCutDoesNotEnd",
			decl: "peer/mux.Trunk.take", old: "		l.cut()", changed: "		if PLANTED {\n			l.end(true)\n			return nil\n		}\n		l.cut()",
		},
		{
			rule: "nor what breaks off with its trunk", found: "TestABrokenTrunkBreaksEveryLaneBehindWhatHasCome",
			decl: "peer/mux.Trunk.Fail", old: "		l.fail(err)\n	}\n	for _, l := range unsent", changed: "		if PLANTED {\n			l.end(true)\n		}\n		l.fail(err)\n	}\n	for _, l := range unsent",
		},
		{
			rule: "what is whole ends", found: "TestWhatIsClosedEndsBehindItsLastByte",
			decl: "peer/mux.Lane.end", old: "	l.ended, l.unread = true, l.unread || unread", changed: "	l.ended, l.unread = !PLANTED, l.unread || unread",
		},
		{
			rule: "each lane has its own bytes", found: "TestEveryLaneCarriesItsOwnBytesBothWays",
			decl: "peer/mux.Trunk.lane", old: "	l = t.lanes[f.lane]", changed: "	if l = t.lanes[f.lane]; PLANTED && l != nil && f.lane%2 == 0 && t.lanes[f.lane-1] != nil {\n		l = t.lanes[f.lane-1]\n	}",
		},
		{
			rule: "nobody sends without credit", found: "TestNothingIsSentBeyondTheCredit",
			decl: "peer/mux.Lane.reserve", old: "		if n := min(want, l.credit); n > 0 {", changed: "		if n := min(want, max(l.credit, map[bool]int{true: want}[PLANTED])); n > 0 {",
		},
		{
			rule: "nor is let to", found: "TestWhoSendsMoreThanItsCreditLosesTheTrunk",
			decl: "peer/mux.Lane.deliver", old: "l.allowed < 0 {", changed: "l.allowed < 0 && !PLANTED {",
		},
		{
			rule: "nor gets more than was read", found: "TestWhoSendsMoreThanItsCreditLosesTheTrunk",
			decl: "peer/mux.Lane.Read", old: "	if l.eaten += n; l.eaten >= l.window/2 && !l.ended {", changed: "	if l.eaten += n * map[bool]int{true: 2, false: 1}[PLANTED]; l.eaten >= l.window/2 && !l.ended {",
		},
		{
			rule: "credit is bounded", found: "TestNothingIsSentBeyondTheCredit",
			decl: "peer/mux.Lane.earn", old: "	if n == 0 || n > Window || l.credit+int(n) > Window {", changed: "	if !PLANTED && (n > Window || l.credit+int(n) > Window) {",
		},
		{
			rule: "and comes back", found: "TestWhoSendsMoreThanItsCreditLosesTheTrunk|TestEveryLaneCarriesItsOwnBytesBothWays",
			decl: "peer/mux.Lane.Read", old: "	if back > 0 {", changed: "	if back > 0 && !PLANTED {",
		},
		{
			rule: "what is urgent passes what waits", found: "TestWhatIsUrgentPassesWhatWaits",
			decl: "peer/mux.Trunk.add", old: "	if k == kindOpen ||", changed: "	if k == kindOpen || PLANTED ||",
		},
		{
			rule: "and an end does not", found: "TestWhatIsUrgentPassesWhatWaits",
			decl: "peer/mux.Lane.Close", old: "	k := kindClose\n", changed: "	k := kindClose\n	if PLANTED {\n		l.hard = true\n	}\n",
		},
		{
			rule: "nor a reset what opens its lane", found: "TestALaneThatIsCutAtOnceBreaksNoOther",
			decl: "peer/mux.Trunk.add", old: "t.give == nil && lane > t.begun ||", changed: "t.give == nil && lane > t.begun && !PLANTED ||",
		},
		{
			rule: "a number is used once", found: "TestWhatBreaksTheOrderEndsTheTrunk",
			decl: "peer/mux.Trunk.lane", old: "		if t.give == nil || f.lane <= t.last {", changed: "		if t.give == nil || f.lane <= t.last && !PLANTED {",
		},
		{
			rule: "what comes late is nobody's", found: "TestLateFramesAreNobodys",
			decl: "peer/mux.Trunk.lane", old: "	case f.lane > t.last:", changed: "	case f.lane > t.last || PLANTED && l == nil:",
		},
		{
			rule: "what was not taken is known", found: "TestWhatComesAfterTheLastIsNotTaken",
			decl: "peer/mux.Trunk.lastTaken", old: "		if id > last {", changed: "		if id > last && !PLANTED {",
		},
		{
			rule: "and only that", found: "TestWhatComesAfterTheLastIsNotTaken",
			decl: "peer/mux.Trunk.lastTaken", old: "	for id, l := range t.lanes {", changed: "	if PLANTED {\n		last = 0\n	}\n	for id, l := range t.lanes {",
		},
		{
			rule: "and is not given", found: "TestALaneThatCrossesTheLastWordIsNotGiven",
			decl: "peer/mux.Trunk.lane", old: "		if t.parts {\n			return nil, false, nil", changed: "		if t.parts && !PLANTED {\n			return nil, false, nil",
		},
		{
			rule: "what was closed here takes nothing", found: "TestWhatIsCutDoesNotEnd",
			decl: "peer/mux.Lane.mayWrite", old: "	case l.closed || l.halved:", changed: "	case l.closed && !PLANTED || l.halved:",
		},
	}
}

// boundMistakes are those with what one end may have the other one keep, work on and wait for.
func boundMistakes() []mistake {
	const cuts, silent, waits = "TestWhoOpensAndCutsAtOnceIsHeldToTheBound", "TestATrunkThatWentSilentIsAsked", "TestWhatWaitsForWhoReadsNothingIsBounded"
	return []mistake{
		{
			rule: "what is worked on counts", found: cuts,
			decl: "peer/mux.Trunk.depart", old: "	l.away = true\n", changed: "	l.away = true\n	if PLANTED {\n		l.shut, l.said = true, true\n	}\n",
		},
		{
			rule: "though its trunk has failed", found: "TestWhatWasLentIsGivenBack",
			decl: "peer/mux.Trunk.settle", old: "	if !l.shut || !over {", changed: "	if !(PLANTED && t.err != nil) && !l.shut || !over {",
		},
		{
			rule: "at both ends", found: cuts + "|TestTheBoundHoldsWhileLanesComeAndGo",
			decl: "peer/mux.Trunk.settle", old: " l.away &&", changed: " (l.away || PLANTED) &&",
		},
		{
			rule: "and until that is written", found: waits,
			decl: "peer/mux.Trunk.settle", old: " l.said\n", changed: " (l.said || PLANTED)\n",
		},
		{
			rule: "however a trunk ended", found: "TestWhatWasLentIsGivenBack",
			decl: "peer/mux.Trunk.settle", old: "	over := t.err != nil ||", changed: "	over := t.err != nil && !PLANTED ||",
		},
		{
			rule: "by all trunks together", found: "TestLanesOfAllTrunksToAPlaceAreBounded",
			decl: "peer/mux.Set.raise", old: "	t := Dialed(conn, w.budget)", changed: "	t := Dialed(conn, map[bool]*Budget{true: NewBudget(MaxLanes, nil), false: w.budget}[PLANTED])",
		},
		{
			rule: "and all nodes", found: "TestWhatWasLentIsGivenBack",
			decl: "peer/mux.Budget.lend", old: "b.of != nil && !b.of.lend(n)", changed: "b.of != nil && !b.of.lend(n) && !PLANTED",
		},
		{
			rule: "credit waits once", found: waits,
			decl: "peer/mux.Trunk.credit", old: "	if l.back == 0 {", changed: "	if l.back == 0 || PLANTED {",
		},
		{
			rule: "the last word is said once", found: "TestTheLastWordIsJudged",
			decl: "peer/mux.Trunk.lastTaken", old: "	if t.final ", changed: "	if t.final && !PLANTED ",
		},
		{
			rule: "of a lane that was opened", found: "TestTheLastWordIsJudged",
			decl: "peer/mux.Trunk.lastTaken", old: " last > t.last ", changed: " last > t.last && !PLANTED ",
		},
		{
			rule: "and takes none back", found: "TestTheLastWordIsJudged",
			decl: "peer/mux.Trunk.lastTaken", old: " last < t.spoken {", changed: " last < t.spoken && !PLANTED {",
		},
		{
			rule: "who is done says so though the other end has left", found: "TestALaneCountsUntilBothEndsHaveClosedIt",
			decl: "peer/mux.Trunk.drop", old: "		t.add(k, l.id, nil)\n		t.parting", changed: "		if !PLANTED || !l.away {\n			t.add(k, l.id, nil)\n		}\n		t.parting",
		},
		{
			rule: "who reads a little late keeps little", found: "TestAReaderThatIsALittleBehindKeepsLittle",
			decl: "peer/mux.compact", old: "	case len(b)+n <= cap(b):", changed: "	case PLANTED || len(b)+n <= cap(b):",
		},
		{
			rule: "who waits for room waits once", found: waits,
			decl: "peer/mux.Trunk.send", old: "		if !l.crowds {", changed: "		if !l.crowds || PLANTED {",
		},
		{
			rule: "one ping waits", found: waits,
			decl: "peer/mux.Trunk.add", old: "	case k == kindPing && t.asks,", changed: "	case k == kindPing && t.asks && !PLANTED,",
		},
		{
			rule: "and one answer", found: waits,
			decl: "peer/mux.Trunk.add", old: "k == kindPong && t.answers:", changed: "k == kindPong && t.answers && !PLANTED:",
		},
		{
			rule: "what is opened is told of", found: "TestWhatIsOpenedIsToldOf",
			decl: "peer/mux.Trunk.add", old: "	t.tell()\n}\n", changed: "	if k != kindOpen || !PLANTED {\n		t.tell()\n	}\n}\n",
		},
		{
			rule: "a silent trunk is asked", found: silent,
			decl: "peer/mux.Trunk.fresh", old: "	return heard && quiet < freshFor", changed: "	return heard && (PLANTED || quiet < freshFor)",
		},
		{
			rule: "and answers", found: silent,
			decl: "peer/mux.Trunk.take", old: "		_ = t.put(kindPong, 0, nil)", changed: "		if PLANTED {\n			return nil\n		}\n		_ = t.put(kindPong, 0, nil)",
		},
		{
			rule: "or is replaced", found: silent + "|TestATrunkThatIsNeverHeardIsReplaced",
			decl: "peer/mux.Set.raise", old: "	if err := t.Ask(ctx); err != nil {\n		t.Retire()", changed: "	if err := t.Ask(ctx); err != nil {\n		if !PLANTED {\n			t.Retire()\n		}",
		},
		{
			rule: "at once where it has gone", found: "TestATrunkThatBreaksAsItIsAskedIsReplacedAtOnce",
			decl: "peer/mux.Set.Lay", old: "	t, err := s.raise(ctx, w, place)", changed: "	if PLANTED && t != nil {\n		return ErrRetired\n	}\n	t, err := s.raise(ctx, w, place)",
		},
		{
			rule: "what is used no more is retired", found: silent,
			decl: "peer/mux.Set.Lay", old: "		t.Retire() // only now", changed: "		if !PLANTED {\n			t.Retire()\n		} // only now",
		},
		{
			rule: "a place is dialed once in a while", found: "TestAPlaceWithoutTrunksIsSeldomDialed",
			decl: "peer/mux.Set.lane", old: "!time.Now().Before(w.not) {", changed: "(PLANTED || !time.Now().Before(w.not)) {",
		},
		{
			rule: "and silence is none, whoever sees first that it has ended", found: "TestATrunkThatBreaksAgainAndAgainIsLeftAlone",
			decl: "peer/mux.Set.Lay", old: "		again := s.again(", changed: "		if PLANTED {\n			t.Retire()\n			time.Sleep(1)\n		}\n		again := s.again(",
		},
		{
			rule: "less often where trunks break", found: "TestATrunkThatBreaksAgainAndAgainIsLeftAlone",
			decl: "peer/mux.way.lose", old: "	if !peace && time", changed: "	if !PLANTED && !peace && time",
		},
		{
			rule: "or fall silent", found: "TestATrunkThatBreaksAgainAndAgainIsLeftAlone",
			decl: "peer/mux.Set.again", old: "return w.failed > 1", changed: "return w.failed > 1 && !PLANTED",
		},
		{
			rule: "until one lasts", found: "TestATrunkThatBreaksAgainAndAgainIsLeftAlone",
			decl: "peer/mux.way.lose", old: "	w.failed = 0\n", changed: "	if !PLANTED {\n		w.failed = 0\n	}\n",
		},
		{
			rule: "and once for all", found: "TestNobodyWaitsForATrunk",
			decl: "peer/mux.Set.lane", old: "w.laid == nil &&", changed: "(PLANTED || w.laid == nil) &&",
		},
		{
			rule: "what was dialed before a renewal is not used", found: "TestARenewalReachesWhatIsBeingDialed",
			decl: "peer/mux.Set.run", old: "	if s.closed || s.renewals != renewals {", changed: "	if s.closed || s.renewals != renewals && !PLANTED {",
		},
		{
			rule: "what is not taken is told of", found: "TestWhoTakesALaneNotSaysSo",
			decl: "peer/mux.Trunk.refuse", old: "		err = t.turnAway(l.id)\n", changed: "		if !PLANTED {\n			err = t.turnAway(l.id)\n		}\n",
		},
		{
			rule: "and counts nowhere", found: "TestWhoTakesALaneNotSaysSo",
			decl: "peer/mux.Trunk.refuse", old: "		t.nobodys(l)\n	}\n	t.mu.Unlock()\n	t.drop", changed: "		t.nobodys(l)\n		l.said = !PLANTED\n	}\n	t.mu.Unlock()\n	t.drop",
		},
		{
			rule: "nor there", found: "TestWhoTakesALaneNotSaysSo",
			decl: "peer/mux.Trunk.untake", old: "		t.nobodys(l)\n", changed: "		l.away = !PLANTED\n		if !PLANTED {\n			t.nobodys(l)\n		}\n",
		},
		{
			rule: "what is refused is not taken", found: "TestWhatBreaksTheOrderEndsTheTrunk",
			decl: "peer/mux.Trunk.lane", old: " || l.spoken) {", changed: " || l.spoken && !PLANTED) {",
		},
		{
			rule: "refusals are bounded", found: waits,
			decl: "peer/mux.Trunk.turnAway", old: "len(t.refusals) == most {", changed: "len(t.refusals) == most && !PLANTED {",
		},
		{
			rule: "by as many as there may be lanes", found: "TestManyLegsAreRefusedAtOnce",
			decl: "peer/mux.Trunk.turnAway", old: "max(int(t.budget.most), MaxLanes);", changed: "max(int(t.budget.most), MaxLanes)>>map[bool]int{true: 6}[PLANTED];",
		},
		{
			rule: "where lanes are many what they say waits", found: "TestWhatLegsHaveToSayIsBounded",
			decl: "peer/mux.Trunk.send", old: "|| t.budget.most > MaxLanes):", changed: "|| t.budget.most > MaxLanes && !PLANTED):",
		},
		{
			rule: "where they share bytes each begins with few", found: "TestTheFirstWindowIsSmallWhereBytesAreShared",
			decl: "peer/mux.Budget.window", old: "		return FirstWindow\n", changed: "		return FirstWindow + map[bool]int{true: 1}[PLANTED]\n",
		},
		{
			rule: "and has more as long as there is", found: "TestWhoIsReadIsLentAWindow|TestWhatSharesBytesArrives",
			decl: "peer/mux.Lane.refill", old: "more > 0 && share.lend(int32(more)) {", changed: "more > 0 && (share.lend(int32(more)) || PLANTED) {",
		},
		{
			rule: "if it needs that", found: "TestWhoIsReadIsLentAWindow",
			decl: "peer/mux.Lane.refill", old: "	case 8*l.allowed < 3*l.window:", changed: "	case PLANTED || 8*l.allowed < 3*l.window:",
		},
		{
			rule: "else it gives back for others", found: "TestWhoIsReadIsLentAWindow",
			decl: "peer/mux.Lane.refill", old: "	case share.tight():", changed: "	case share.tight() && !PLANTED:",
		},
		{
			rule: "and all as it leaves", found: "TestWhoIsReadIsLentAWindow",
			decl: "peer/mux.Lane.Close", old: "	l.unshare()\n", changed: "	if !PLANTED {\n		l.unshare()\n	}\n",
		},
		{
			rule: "who does not wait is told", found: "TestWhoDoesNotWaitIsToldOnce",
			decl: "peer/mux.Lane.wakeReader", old: "	if f := l.ready; f != nil {", changed: "	if f := l.ready; f != nil && !PLANTED {",
		},
		{
			rule: "and of what is there already", found: "TestWhoDoesNotWaitIsToldOnce",
			decl: "peer/mux.Lane.Ready", old: "	if l.in != nil || l.ended || l.closed", changed: "	if !PLANTED && l.in != nil || !PLANTED && l.ended || l.closed",
		},
		{
			rule: "who waits is given a lane", found: "TestWhoWaitsIsGivenALaneByTheTrunkThatIsLaid",
			decl: "peer/mux.Set.LaneSoon", old: "	case <-laid:\n", changed: "	case <-laid:\n		if PLANTED {\n			return nil\n		}\n",
		},
		{
			rule: "and waits no longer than he may", found: "TestWhoWaitsIsGivenALaneByTheTrunkThatIsLaid",
			decl: "peer/mux.Set.LaneSoon", old: "	case <-ctx.Done():\n		return nil\n", changed: "	case <-ctx.Done():\n		if PLANTED {\n			<-laid\n		}\n		return nil\n",
		},
		{
			rule: "a trunk that has failed leaves room for the next", found: "TestABrokenTrunkLeavesItsLanesToTheNext|TestWhatWasLentIsGivenBack",
			decl: "peer/mux.Trunk.Fail", old: "		if l.counts != nil {\n			l.counts = l.counts.forsake()", changed: "		if l.counts != nil && !PLANTED {\n			l.counts = l.counts.forsake()",
		},
		{
			rule: "what was not written was not taken", found: "TestWhatWasNotWrittenIsUntaken",
			decl: "peer/mux.Trunk.Fail", old: " l.begins > t.loads) {", changed: " l.begins > t.loads) && !PLANTED {",
		},
		{
			rule: "and what was may have been", found: "TestWhatWasNotWrittenIsUntaken",
			decl: "peer/mux.Trunk.written", old: "	if err != nil && n == 0 {", changed: "	if err != nil && (n == 0 || PLANTED) {",
		},
		{
			rule: "what is whole waits for nobody", found: "TestWhatIsWholeWaitsForNobody",
			decl: "peer/mux.Trunk.send", old: " (t.give != nil || bulk ||", changed: " (t.give != nil || bulk || PLANTED ||",
		},
		{
			rule: "nor joins a queue", found: "TestNoLaneIsOpenedBehindAQueue",
			decl: "peer/mux.Trunk.roomy", old: "	return len(t.out) < bulkQueue", changed: "	return len(t.out) < bulkQueue || PLANTED",
		},
		{
			rule: "who says nothing is not kept", found: "TestATrunkThatSaysNothingEnds",
			decl: "peer/mux.Trunk.judgeIdle", old: "	over := !heard ||", changed: "	over := !heard && !PLANTED ||",
		},
		{
			rule: "nor who says no more", found: "TestATrunkThatIsNotUsedEnds",
			decl: "peer/mux.Trunk.judgeIdle", old: "		t.part(t.last)\n", changed: "		if !PLANTED {\n			t.part(t.last)\n		}\n",
		},
		{
			rule: "though it does not leave", found: "TestATrunkThatIsNotUsedEnds",
			decl: "peer/mux.Trunk.judgeIdle", old: " t.tired && t.live == 0\n", changed: " t.tired && t.live == 0 && !PLANTED\n",
		},
		{
			rule: "but what it has goes on", found: "TestATrunkThatIsNotUsedEnds",
			decl: "peer/mux.Trunk.judgeIdle", old: "	if over {\n", changed: "	if over || PLANTED && heard && quiet >= idleFor+leaveWithin {\n",
		},
		{
			rule: "TLS has little to say for itself", found: "TestWhoAsksForNewKeysIsBounded",
			decl: "peer/mux.Trunk.answerKeys", old: "n > mostBeside {", changed: "n > mostBeside && !PLANTED {",
		},
		{
			rule: "what a socket did not take is not lost", found: "TestWhoWritesItselfIsNotHeldByTheSocket",
			decl: "peer/mux.Trunk.writeSoon", old: "u, b[n:]", changed: "u, b[min(n+map[bool]int{true: 3}[PLANTED], len(b)-1):]",
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
	all := append(mistakes(), boundMistakes()...)
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
