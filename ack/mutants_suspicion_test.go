package ack_test

// mutantsOfSuspicion replace a leader from which most voters receive answers, or replace a hung
// leader too late.
func mutantsOfSuspicion() []mutant {
	missed := mixCalled("missed")
	pairs := aimed("pair 6, isolate 2, pause 2, doze 1")
	pairs.suspicions, pairs.hosts = 100, [2]int{3, 5}
	unstarted := aimed("leader-hangs 8, disk 4, noise 3")
	unstarted.suspicions, unstarted.hosts = 100, [2]int{3, 3}
	return []mutant{
		{
			name: "suspicion: one voter that misses its leader is enough", mix: pairs, caught: "suspicion",
			edits: in("ack/election.Suspicion.tryCampaign", "	if 2*summary.missing <= len(voters) {\n", "	if !PLANTED && 2*summary.missing <= len(voters) {\n"),
		},
		{
			name: "suspicion: a voter that does not miss the leader counts", mix: pairs, caught: "suspicion",
			edits: in("ack/election.Suspicion.reportCounts", "	return report.LeaderTerm == s.ownReport.LeaderTerm && age", "	return (PLANTED && report.requestedAt > 0 || report.LeaderTerm == s.ownReport.LeaderTerm) && age"),
		},
		{
			name: "suspicion: an old report counts", mix: missed, caught: "suspicion",
			edits: both(in("ack/election.Suspicion.reportCounts", "age <= reportHeartbeats*s.options.Heartbeat\n", "(PLANTED || age <= reportHeartbeats*s.options.Heartbeat)\n"),
				both(in("ack/election.Suspicion.beginSuspicion", "	clear(s.peerReports)\n", "	if !PLANTED {\n		clear(s.peerReports)\n	}\n"),
					in("ack/election.Suspicion.RecordReport", "requestedAt >= s.missedSince &&", "(PLANTED || requestedAt >= s.missedSince) &&"))),
		},
		{
			name: "suspicion: a voter that was stopped misses its leader", mix: missed, caught: "suspicion",
			edits: in("ack/election.Suspicion.Poll", "	if now-s.lastPoll > s.timeout()/2 {\n", "	if !PLANTED && now-s.lastPoll > s.timeout()/2 {\n"),
		},
		{
			name: "suspicion: a leader that has not answered yet is missed", mix: missed, caught: "suspicion",
			edits: in("ack/election.Suspicion.leaderMissed", " && unanswered.LeaderTerm == s.options.Raft.Term()\n", " && (PLANTED || unanswered.LeaderTerm == s.options.Raft.Term())\n"),
		},
		{
			name: "suspicion: a leader is missed only when its leases have almost ended", mix: missed, caught: "suspicion",
			edits: in("ack/election.Suspicion.timeout", "max(s.options.Heartbeat*missedTenths/10, minMissedTime)\n", "max(s.options.Heartbeat*missedTenths/10, minMissedTime) * [...]time.Duration{1, 4}[plantedAs(PLANTED)]\n"),
		},
		{
			name: "suspicion: all voters that miss the leader campaign at once", mix: missed, caught: "suspicion",
			edits: in("ack/election.reportSummary.campaignDelay", "	if r.unreplied {\n", "	if delay *= time.Duration(plantedAs(!PLANTED)); r.unreplied {\n"),
		},
		{
			name: "suspicion: voters campaign in the order of ids alone", mix: missed, caught: "suspicion",
			edits: in("ack/election.Suspicion.precedes", "	return log.isNewerThan(s.ownReport.Log) || log == s.ownReport.Log && server", "	return !PLANTED && log.isNewerThan(s.ownReport.Log) || (PLANTED || log == s.ownReport.Log) && server"),
		},
		{
			name: "suspicion: a campaign that has not started counts in the next suspicion", mix: unstarted, caught: "suspicion",
			edits: in("ack/election.Suspicion.beginSuspicion", "	s.campaignedAgainst = 0\n", "	if !PLANTED {\n		s.campaignedAgainst = 0\n	}\n"),
		},
		{
			name: "leases: no voter confirms the response to its heartbeat", mix: missed, caught: "suspicion",
			edits: in("ack/agent.Agent.scheduleNextHeartbeat", "isPeriodicAnswered := !a.confirmationSent &&", "isPeriodicAnswered := !PLANTED && !a.confirmationSent &&"),
		},
		{
			name: "reason 22: a node that has its lease sends only one heartbeat, and no voter confirms responses", mix: missed, caught: "suspicion",
			edits: both(in("ack/agent.Agent.scheduleNextHeartbeat", "a.initialHeartbeats < minInitialHeartbeats ||", "!PLANTED && a.initialHeartbeats < minInitialHeartbeats ||"),
				in("ack/agent.Agent.scheduleNextHeartbeat", "&& a.options.IsFollowingVoter != nil {", "&& !PLANTED && a.options.IsFollowingVoter != nil {")),
		},
	}
}

// pointsOfSuspicion are those of docs/internals/protocol-failures.md, "A leader that is missed".
func pointsOfSuspicion() []point {
	planted := func(clause string, names ...string) point {
		return point{of: "suspicion", clause: clause, planted: names}
	}
	return []point{
		planted("a majority of the voters misses the leader", "suspicion: one voter that misses its leader is enough", "suspicion: a voter that does not miss the leader counts"),
		planted("and each report is at most one heartbeat old", "suspicion: an old report counts"),
		planted("a voter that was stopped does not miss the leader yet", "suspicion: a voter that was stopped misses its leader"),
		planted("a leader that has not answered yet is not missed", "suspicion: a leader that has not answered yet is missed"),
		{of: "reason 21", clause: "a leader is missed early enough for leases to continue", planted: []string{"suspicion: a leader is missed only when its leases have almost ended"}},
		{of: "leases", clause: "a voter that follows the leader confirms each response", planted: []string{"leases: no voter confirms the response to its heartbeat"}},
		{of: "reason 22", clause: "each node sends a new leader several heartbeats", planted: []string{"reason 22: a node that has its lease sends only one heartbeat, and no voter confirms responses"}},
		planted("voters campaign one after the other", "suspicion: all voters that miss the leader campaign at once"),
		planted("first the voter with the newest log", "suspicion: voters campaign in the order of ids alone"),
		{
			of: "suspicion", clause: "a voter waits briefly for missing replies, and longer for a candidate",
			explained: "Two candidates in one term cost an election timeout, as without a suspicion, and only with five or more voters: " +
				"TestVoterWaitsForRepliesBeforeItCampaigns, TestVoterYieldsToCandidate, TestVoterGivesCandidateTime.",
		},
		{
			of: "suspicion", clause: "and for a voter in a later term",
			explained: "Two candidates in one term cost an election timeout. That requires writes of 70 ms, which no disk of the simulation needs: " +
				"TestVoterYieldsToLaterTerm, and in package node TestVotersWithSlowDisksStandOneAfterTheOther.",
		},
		{
			of: "suspicion", clause: "a refused campaign is repeated later",
			explained: "In most cases another voter campaigns in the meantime. TestRefusedCampaignIsRetried.",
		},
		planted("a campaign that has not started does not count in the next suspicion", "suspicion: a campaign that has not started counts in the next suspicion"),
		{
			of: "suspicion", clause: "a suspicion is abandoned after ten heartbeats",
			explained: "By then the election timeout of Raft has expired; the rule saves requests. TestSuspicionIsAbandoned.",
		},
		{
			of: "suspicion", clause: "a voter that has replaced a live leader waits longer the next time",
			explained: "It saves terms on busy machines; the simulation does not ask the missed leader. TestFalseAlarmRaisesTheTimeout.",
		},
	}
}
