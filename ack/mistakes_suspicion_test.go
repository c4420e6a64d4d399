package ack_test

// mistakesOfDoubt are those by which a leader is replaced that most voters hear, or by
// which one that hangs is replaced too late.
func mistakesOfDoubt() []mistake {
	missed := mixCalled("missed")
	pairs := aimed("pair 6, isolate 2, pause 2, doze 1")
	pairs.doubts, pairs.hosts = 100, [2]int{3, 5}
	return []mistake{
		{
			name: "doubt: one that misses its leader is enough", mix: pairs, caught: "doubt",
			edits: in("ack/election.Suspicion.shouldCampaign", "	if 2*with <= len(voters) {\n", "	if !PLANTED && 2*with <= len(voters) {\n"),
		},
		{
			name: "doubt: who misses nobody counts", mix: pairs, caught: "doubt",
			edits: in("ack/election.Suspicion.reportCounts", "	return h.LeaderTerm == s.report.LeaderTerm && now", "	return (PLANTED && h.requestedAt > 0 || h.LeaderTerm == s.report.LeaderTerm) && now"),
		},
		{
			name: "doubt: what was said long ago counts", mix: missed, caught: "doubt",
			edits: both(in("ack/election.Suspicion.reportCounts", "now-h.requestedAt <= reportHeartbeats*s.o.Heartbeat\n", "(PLANTED || now-h.requestedAt <= reportHeartbeats*s.o.Heartbeat)\n"),
				both(in("ack/election.Suspicion.Poll", "		clear(s.reports)\n", "		if !PLANTED {\n			clear(s.reports)\n		}\n"),
					in("ack/election.Suspicion.ReportReceived", "asked >= s.missedSince &&", "(PLANTED || asked >= s.missedSince) &&"))),
		},
		{
			name: "doubt: who stood still misses its leader", mix: missed, caught: "doubt",
			edits: in("ack/election.Suspicion.Poll", "	if now-s.lastPoll > s.timeout()/2 {\n", "	if !PLANTED && now-s.lastPoll > s.timeout()/2 {\n"),
		},
		{
			name: "doubt: a leader is missed that has not answered yet", mix: missed, caught: "doubt",
			edits: in("ack/election.Suspicion.leaderMissed", " && of.Term == s.o.Raft.Term()\n", " && (PLANTED || of.Term == s.o.Raft.Term())\n"),
		},
		{
			name: "doubt: a leader is missed when its leases have almost ended", mix: missed, caught: "doubt",
			edits: in("ack/election.Suspicion.timeout", "max(s.o.Heartbeat*missedTenths/10, minMissedTime)\n", "max(s.o.Heartbeat*missedTenths/10, minMissedTime) * [...]time.Duration{1, 4}[plantedAs(PLANTED)]\n"),
		},
		{
			name: "doubt: all who miss it stand at once", mix: missed, caught: "doubt",
			edits: in("ack/election.Suspicion.shouldCampaign", "	if silent > 0 {\n", "	if wait *= time.Duration(plantedAs(!PLANTED)); silent > 0 {\n"),
		},
		{
			name: "doubt: they stand by their ids alone", mix: missed, caught: "doubt",
			edits: in("ack/election.Suspicion.precedes", "	return log.newer(s.report.Log) || log == s.report.Log && strings", "	return !PLANTED && log.newer(s.report.Log) || (PLANTED || log == s.report.Log) && strings"),
		},
		{
			name: "why 22: who has its lease leaves the others without theirs for a heartbeat", mix: missed, caught: "doubt",
			edits: in("ack/agent.Agent.Answered", "a.burst < minBurst ||", "!PLANTED && a.burst < minBurst ||"),
		},
	}
}

// pointsOfDoubt are those of docs/internals/protocol-leases.md, "A leader that is missed".
func pointsOfDoubt() []point {
	planted := func(clause string, names ...string) point {
		return point{of: "doubt", clause: clause, planted: names}
	}
	return []point{
		planted("a majority of the voters misses the leader", "doubt: one that misses its leader is enough", "doubt: who misses nobody counts"),
		planted("and has said so a heartbeat ago at most", "doubt: what was said long ago counts"),
		planted("who stood still itself misses nobody yet", "doubt: who stood still misses its leader"),
		planted("a leader that has answered nobody yet is not missed", "doubt: a leader is missed that has not answered yet"),
		{of: "why 21", clause: "it is missed so early that leases go on", planted: []string{"doubt: a leader is missed when its leases have almost ended"}},
		{of: "why 22", clause: "all speak to a new leader several times", planted: []string{"why 22: who has its lease leaves the others without theirs for a heartbeat"}},
		planted("one stands after the other", "doubt: all who miss it stand at once"),
		planted("first the one with the newest log", "doubt: they stand by their ids alone"),
		{
			of: "doubt", clause: "who has not replied to the last question is waited for, for a moment, and who stands already for longer",
			explained: "Two that stand in one term cost a timeout, as without all this, and only where five vote or more: " +
				"TestVoterWaitsForRepliesBeforeItCampaigns, TestVoterYieldsToCandidate, TestVoterGivesCandidateTime.",
		},
		{
			of: "doubt", clause: "and so is one that is in a later term",
			explained: "Two that stand in one term cost a timeout. It takes writes of 70 ms, which no disk of the simulation needs: " +
				"TestVoterYieldsToLaterTerm, and in package node TestVotersWithSlowDisksStandOneAfterTheOther.",
		},
		{
			of: "doubt", clause: "who was to stand and could not does so later",
			explained: "Another one stands meanwhile, in all but a few cases. TestRefusedCampaignIsRetried.",
		},
		{
			of: "doubt", clause: "a doubt is given up after ten heartbeats",
			explained: "By then Raft's own timeout has come; it saves questions. TestSuspicionIsAbandoned.",
		},
		{
			of: "doubt", clause: "who has replaced a leader that was there waits for longer the next time",
			explained: "It saves terms on machines without time to spare; no leader of the simulation is called. TestFalseAlarmRaisesTheTimeout.",
		},
	}
}
