package proxy_test

// mistakesOfLoops are those with connections that a loop carries.
func mistakesOfLoops() []mistake {
	return []mistake{
		{
			rule: "a loop is tried again after a while", found: "TestConnectionIsLoopedAfterAMomentWithoutDescriptors",
			edits: in("proxy.loops.join", "g.never() {", "g.never() || PLANTED {"),
		},
		{
			rule: "a request that panics is over", found: "TestRequestThatPanicsIsCountedWhoeverCarriesIt",
			edits: in("proxy.loop.safely", "			if c.x.isOpen() {\n", "			if c.x.isOpen() && !PLANTED {\n"),
		},
		{
			rule: "a loop is told when what it runs is cut", found: "TestWhatALoopRunsIsCut",
			edits: in("proxy.loop.fly", "	k.SetWakeup(&c.poke)\n", "	if !PLANTED {\n		k.SetWakeup(&c.poke)\n	}\n"),
		},
		{
			rule: "what comes with its end is answered, and then it is over", found: "TestLoopHearsWhatComesMeanwhile",
			edits: in("proxy.loop.hear", "c.looped.ended || h.End", "c.looped.ended || h.End && !PLANTED"),
		},
		{
			rule: "what is longer than a buffer is read on", found: "TestLoopHearsWhatComesMeanwhile",
			edits: in("proxy.client.ask", "c.looped.ended || c.h.MayHaveMore()", "c.looped.ended || c.h.MayHaveMore() && !PLANTED"),
		},
		{
			rule: "what is here already is gone on with", found: "TestLoopHearsWhatComesMeanwhile",
			edits: in("proxy.client.settleIn", "	if c.looped.speaks || len(c.h.Buffered()) > 0 {", "	if c.looped.speaks || len(c.h.Buffered()) > 0 && !PLANTED {"),
		},
		{
			rule: "who leaves to read reads", found: "TestWhoLeavesALoopIsGone",
			edits: in("proxy.loop.leave", "max(c.habit.rests, 1)", "max(c.habit.rests, map[bool]int{true: 0, false: 1}[PLANTED])"),
		},
		{
			rule: "what takes its time is waited for and watched elsewhere", found: "TestWhoLeavesALoopIsGone",
			edits: in("proxy.Server.sweepRun", "		c.poke() // from here on", "		if !PLANTED {\n			c.poke()\n		} // from here on"),
		},
		{
			rule: "nobody idles in a loop for longer than elsewhere", found: "TestLoopKeepsNobodyForEver",
			edits: in("proxy.Server.sweep", "			c.poke() // its goroutine", "			if !PLANTED {\n				c.poke()\n			} // its goroutine"),
		},
		{
			rule: "what has come since the last look is read", found: "TestLoopHearsWhatComesMeanwhile",
			edits: in("proxy.client.ask", "c.h.Received() != before {", "c.h.Received() != before || PLANTED {"),
		},
		{
			rule: "what another loop has read is gone on with", found: "TestGivenAwayWithARequestInItsBuffer",
			edits: in("proxy.loop.take", "	if len(c.h.Buffered()) > 0 { // the loop", "	if len(c.h.Buffered()) > 0 && !PLANTED { // the loop"),
		},
		{
			rule: "what has been read is not parked", found: "TestWhatHasBeenReadIsNotParked",
			edits: in("proxy.client.park", "	if len(c.h.Buffered()) > 0 {\n		return false", "	if len(c.h.Buffered()) > 0 && !PLANTED {\n		return false"),
		},
		{
			rule: "a loop sends no long body", found: "TestLoopSendsNoLongBody",
			edits: in("proxy.client.setOut", "	if !c.asks() {", "	if !c.asks() && !PLANTED {"),
		},
		{
			rule: "a loop never waits until a client reads", found: "TestUnsentAnswerOfALoopIsSentLater",
			edits: in("proxy.loop.take", "	c.h.Writer().SetNonblocking(true)\n", "	c.h.Writer().SetNonblocking(!PLANTED)\n"),
		},
		{
			rule: "what is none for a loop stays away for a while", found: "TestLoopIsNotTriedWithEachRequest",
			edits: in("proxy.client.joins", "		c.habit.rests--\n		return false", "		c.habit.rests--\n		return PLANTED && c.goes()"),
		},
		{
			rule: "an answer that is not whole is left as it was", found: "TestWhatIsNotForALoopIsAnsweredAllTheSame",
			edits: in("proxy.client.answer", "	case found == h1.ParseMustBlock, isEvents(res):\n", "	case found == h1.ParseMustBlock, isEvents(res):\n		if PLANTED {\n			p.l.ConsumeResponse(res)\n		}\n"),
		},
		{
			rule: "many connections are shared among loops", found: "TestConnectionsAreSharedAmongLoops",
			edits: in("proxy.loops.spread", "to != l && many > fair {", "to != l && many > fair && !PLANTED {"),
		},
	}
}
