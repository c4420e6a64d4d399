package ack_test

// mistakesOfAbsence are those by which a restart in place would move shards, hold up
// what others have, or be waited for when nobody comes.
func mistakesOfAbsence() []mistake {
	restarts := aimed("restart 8, restart-elect 3, restart-join 4, kill 2, join 2")
	elects := aimed("restart 6, restart-elect 6, depose 3, elect 3")
	return []mistake{
		{
			name: "absence: a boot has one after the other", mix: restarts, caught: "absence",
			edits: both(in("ack.State.applyRestart", "(!known || a.Boot < c.Boot)", "(PLANTED || !known || a.Boot < c.Boot)"),
				in("ack.Leader.announcesRestart", "(!known || a.Boot < n.heartbeat.Boot)", "(PLANTED && a.Over || !known || a.Boot < n.heartbeat.Boot)")),
		},
		{
			name: "absence: what an earlier leader saw counts", mix: elects.late(), caught: "absence",
			edits: in("ack.State.applyRestart", "term != c.Term", "!PLANTED && term != c.Term"),
		},
		{
			name: "absence: a new leader counts it from before its election", mix: elects, caught: "absence",
			edits: in("ack.Leader.member", "restartTimes{since: l.elected}", "restartTimes{since: l.elected - time.Duration(plantedAs(PLANTED))*time.Hour}"),
		},
		{
			name: "absence: who does not come back is waited for without end", mix: stuckLater(restarts), caught: "progress",
			edits: in("ack.Leader.restartChange", "now-n.restart.since >= a.Grace", "!PLANTED && now-n.restart.since >= a.Grace"),
		},
		{
			name: "absence: who is back is waited for until its time is over", mix: mixCalled("in-place"), caught: "progress",
			edits: in("ack.Leader.hasReturned", "	case n.heartbeat.Boot <= a.Boot ||", "	case PLANTED, n.heartbeat.Boot <= a.Boot ||"),
		},
		{
			name: "absence: it is over with the first word of the next process", mix: restarts, caught: "absence",
			edits: in("ack.Leader.hasReturned", "n.freshStreak >= requiredStreak && n.hadLease && now-n.lastGrant <= l.maxTiming.Lease\n", "(PLANTED || n.freshStreak >= requiredStreak && n.hadLease && now-n.lastGrant <= l.maxTiming.Lease)\n"),
		},
		{
			name: "absence: who joins gets shards of who is absent", mix: restarts, caught: "absence|G9",
			edits: in("ack.Leader.assignPolicy", "p.Absent, p.Before = absent, l.state.previous\n", "p.Absent, p.Before = absent, l.state.previous\n		if PLANTED {\n			p.Absent = nil\n		}\n"),
		},
		{
			name: "absence: who is absent is left out for its silence", mix: restarts, caught: "absence",
			edits: in("ack.Leader.eligibleMembers", "		absent := l.isRestarting(n)\n", "		absent := !PLANTED && l.isRestarting(n)\n"),
		},
		{
			name: "absence: goodbye is said while requests run, for they have the time of a drain", mix: restarts, caught: "G1",
			edits: in("ack/agent.Agent.finishStopping", "	if !a.cutAll(CutGoodbye) {\n", "	if !(PLANTED && s.ReturnsWithin > 0) && !a.cutAll(CutGoodbye) {\n"),
		},
		{
			name: "absence: the word of an operator ends it for one leader alone", mix: aimed("restart 8, remove 6, elect 4, depose 3"), caught: "absence|G4",
			edits: in("ack.State.endRestart", "ok && !a.Over {", "ok && !a.Over && !PLANTED {"),
		},
		{
			name: "rule 8: snapshots forget who is absent", mix: aimed("restart 8, compact 4, kill 4, wipe 2"), caught: "G5",
			edits: in("ack.State.MarshalBinary", "	w.restarts(s)\n", "	w.restarts([]*State{s, {}}[plantedAs(PLANTED)])\n"),
		},
	}
}

// pointsOfAbsence are those of docs/internals/protocol-state.md, Restart in place.
func pointsOfAbsence() []point {
	planted := func(clause string, names ...string) point {
		return point{of: "absence", clause: clause, planted: names}
	}
	return []point{
		planted("who is absent is a member, whatever is heard of it", "absence: who is absent is left out for its silence"),
		planted("its target is exactly what it has", "absence: who joins gets shards of who is absent"),
		{
			of: "absence", clause: "a proposal needs no acknowledgement of it",
			explained: "Without that rule others wait, and a round ends with the absence. Needed: TestShardsOfOtherNodesMoveDuringARestart.",
		},
		{
			of: "absence", clause: "but only one that leaves it what it has",
			explained: "A second lock: the target is exactly that, and a proposal that is not the target is replaced before a commit is thought of.",
		},
		{
			of: "absence", clause: "and does not count it as missing one",
			explained: "Who is absent is a member without being asked, so it is not left out for that. What is left: a leader that nobody has acknowledged to yet would step down for it.",
		},
		{
			of: "absence", clause: "its deadline starts when the absence ends",
			explained: "Who is back has acknowledged the map that routes, so an open round that is older would have to be one that others hold up. Needed: TestAckDeadlineStartsAtTheEndOfARestart.",
		},
		planted("each leader counts anew", "absence: a new leader counts it from before its election"),
		planted("it counts for the leader that saw it", "absence: what an earlier leader saw counts"),
		planted("a boot has one", "absence: a boot has one after the other"),
		planted("it ends when a later process is healthy", "absence: who is back is waited for until its time is over", "absence: it is over with the first word of the next process"),
		planted("or when the grace is over", "absence: who does not come back is waited for without end"),
		{
			of: "absence", clause: "or with a map without the node",
			explained: "Only an operator's word takes one out who is absent, and that ends the absence. What is over must be forgotten, too: TestNodeThatDoesNotReturnLosesItsShards.",
		},
		planted("snapshots have it", "rule 8: snapshots forget who is absent"),
		planted("or by the word of an operator", "absence: the word of an operator ends it for one leader alone"),
		planted("goodbye waits for what runs", "absence: goodbye is said while requests run, for they have the time of a drain"),
	}
}
