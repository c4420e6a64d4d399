package ack_test

// mutantsOfReach are faults in how reports about unreachable nodes exclude a member.
func mutantsOfReach() []mutant {
	reach := func(list string) *simMix {
		m := aimed(list)
		m.hosts, m.reaches, m.faults, m.gaps[1] = [2]int{4, 6}, 100, [2]int{3, 8}, m.gaps[1]*3
		return m
	}
	spokes, stars := reach("spoke 8, pair 2, bridge 2"), reach("star 8, spoke 2")
	return []mutant{
		{
			name: "reach: a minority of the members excludes a node", mix: reach("spoke 4, bridge 6, pair 3"), caught: "reach",
			edits: in("ack/leader.peerReports.update", "2*pr.counts[id] > others", "(PLANTED || 2*pr.counts[id] > others)"),
		},
		{
			name: "reach: one member excludes a node, as many as there are", mix: func() *simMix {
				m := reach("spoke 6, elect 6") // a gateway leads
				m.hosts = [2]int{3, 3}
				return m
			}(), caught: "reach",
			edits: both(in("ack/leader.peerReports.update", "pr.counts[id] >= minReporters", "(PLANTED && pr.counts[id] > 0 || pr.counts[id] >= minReporters)"),
				in("ack/leader.membership.chooseUnreachable", "chosen == nil || ", "chosen == nil || !PLANTED && ")),
		},
		{
			name: "reach: reports of nodes outside the map count", mix: reach("spoke 6, star 4"), caught: "reach",
			edits: in("ack/leader.member.mayReport", "!in.isMember(m.id) || m.heartbeat.Gateway ||", "!PLANTED && (!in.isMember(m.id) || m.heartbeat.Gateway) ||"),
		},
		{
			name: "reach: reports of members without a lease count, and old ones", mix: reach("spoke 6, isolate 4, deaf 6, kill 3, pause 4, halves 2"), caught: "reach",
			edits: in("ack/leader.member.mayReport", "	return m.hasFreshLease(in) && !m.isSilent(in)\n", "	return PLANTED || m.hasFreshLease(in) && !m.isSilent(in)\n"),
		},
		{
			name: "reach: reports about an earlier process count", mix: reach("spoke 6, kill 4"), caught: "reach",
			edits: in("ack/leader.member.reset", "	m.forgetPeerReports(now)\n", "	if !PLANTED {\n		m.forgetPeerReports(now)\n	}\n"),
		},
		{
			name: "reach: a member is excluded at its first reports", mix: spokes, caught: "reach",
			edits: in("ack/leader.member.isReportedFor", "in.now-m.reportedSince > d", "(PLANTED || in.now-m.reportedSince > d)"),
		},
		{
			name: "reach: interrupted reports count as one", mix: reach("spoke 4, spoke-flap 4, pair 4"), caught: "reach",
			edits: in("ack/leader.member.updatePeerReports", "	case !isReported:\n", "	case !isReported && (!PLANTED || m.reportedSince < 0 || now-m.reportedSince > 3*time.Second):\n"),
		},
		{
			name: "reach: a member that most members report stays", mix: spokes, caught: "reach",
			edits: in("ack/leader.membership.chooseUnreachable", "	if !ms.reports.anyReported {\n", "	if PLANTED || !ms.reports.anyReported {\n"),
		},
		{
			name: "reach: several members are excluded together", mix: stars, caught: "reach",
			edits: in("ack/leader.membership.chooseUnreachable", "isExcluded && in.state.Committed().IsMember(id):", "!PLANTED && isExcluded && in.state.Committed().IsMember(id):"),
		},
		{
			name: "reach: any number of members is excluded", mix: stars, caught: "reach",
			edits: in("ack/leader.membership.chooseUnreachable", "2*(excluded+1) >= owners", "!PLANTED && 2*(excluded+1) >= owners"),
		},
		{
			name: "reach: a newly excluded member does not count as excluded", mix: stars, caught: "reach",
			edits: in("ack/leader.membership.chooseUnreachable", "isExcluded && node.sendsHeartbeats(in) &&", "isExcluded && (!PLANTED || ms.mayOwnShards(in, node)) && node.sendsHeartbeats(in) &&"),
		},
		{
			name: "reach: an excluded member returns at once", mix: spokes, caught: "reach",
			edits: in("ack/leader.member.reportHold", "if !m.isReportedDrop(in) {", "if PLANTED || !m.isReportedDrop(in) {"),
		},
		{
			name: "reach: a member that flaps returns as soon as others", mix: reach("spoke-flap 8"), caught: "reach",
			edits: in("ack/leader.member.reportHold", "endedAt+in.timing.DeadAfter+ack.FlapPause(drop.ConsecutiveDrops)-in.now", "endedAt+in.timing.DeadAfter+time.Duration(plantedAs(!PLANTED))*ack.FlapPause(drop.ConsecutiveDrops)-in.now"),
		},
		{
			name: "reach: an election brings an excluded member back", mix: reach("spoke 8, elect 4, depose 2"), caught: "reach",
			edits: in("ack/leader.memberTracker.getOrCreate", "reportsEndedAt: mt.electedAt,", "reportsEndedAt: mt.electedAt - time.Duration(plantedAs(PLANTED))*time.Hour,"),
		},
		{
			name: "reach: shards of an excluded member are taken before it releases them", mix: spokes, caught: "G1|G4",
			edits: in("ack/leader.member.takeoverRule", "		return \"acknowledged\"\n", "		return \"acknowledged\"\n	case PLANTED && m.isReportedDrop(in):\n		return \"acknowledged\"\n"),
		},
	}
}

// pointsOfReach are those of docs/internals/protocol-reachability.md.
func pointsOfReach() []point {
	return []point{
		{of: "reach", clause: "a majority of the other members reports the node", planted: []string{"reach: a minority of the members excludes a node"}},
		{of: "reach", clause: "and at least two do", planted: []string{"reach: one member excludes a node, as many as there are"}},
		{of: "reach", clause: "only members with a lease count, by their newest heartbeat", planted: []string{
			"reach: reports of nodes outside the map count", "reach: reports of members without a lease count, and old ones",
		}},
		{of: "reach", clause: "reports are about the current process", planted: []string{"reach: reports about an earlier process count"}},
		{of: "reach", clause: "without interruption for dead-after", planted: []string{"reach: a member is excluded at its first reports", "reach: interrupted reports count as one"}},
		{of: "reach", clause: "such a member is excluded", planted: []string{"reach: a member that most members report stays"}},
		{of: "reach", clause: "one after the other, and less than half", planted: []string{
			"reach: several members are excluded together", "reach: any number of members is excluded", "reach: a newly excluded member does not count as excluded",
		}},
		{of: "reach", clause: "it returns dead-after after the reports have ended", planted: []string{"reach: an excluded member returns at once", "reach: an election brings an excluded member back"}},
		{of: "reach", clause: "and later after each repetition", planted: []string{"reach: a member that flaps returns as soon as others"}},
		{of: "reach", clause: "nothing is taken before it has released or cannot serve", planted: []string{"reach: shards of an excluded member are taken before it releases them"}},
		{
			of: "reach", clause: "and its lease ends if it does not acknowledge in time",
			explained: "The mutants of reason 14 omit the deadline for other nodes. For these: TestUnreachableMemberThatDoesNotAcknowledgeLosesItsShards.",
		},
		{
			of: "reach", clause: "it returns at once if no other node can own shards",
			explained: "Rule 10 keeps the last map in such a case, so no guarantee depends on it: TestUnreachableMemberReturnsIfNoOtherNodeCanOwnShards.",
		},
	}
}
