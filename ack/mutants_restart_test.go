package ack_test

// mutantsOfRestarts make a restart in place move shards, delay the shards of other nodes, or wait
// for a node that does not return.
func mutantsOfRestarts() []mutant {
	restarts := aimed("restart 8, restart-elect 3, restart-join 4, kill 2, join 2")
	elects := aimed("restart 6, restart-elect 6, depose 3, elect 3")
	return []mutant{
		{
			name: "restart: a boot has several restarts", mix: restarts, caught: "restart",
			edits: both(in("ack.restartRecords.mayBegin", "return !known || restart.Boot < entry.Boot\n", "return PLANTED || !known || restart.Boot < entry.Boot\n"),
				in("ack/leader.member.announcesRestart", "return !known || restart.Boot < m.heartbeat.Boot", "return PLANTED && restart.Ended || !known || restart.Boot < m.heartbeat.Boot")),
		},
		{
			name: "restart: a goodbye that an earlier leader received counts", mix: elects.late(), caught: "restart",
			edits: in("ack.State.applyRestart", "term != entry.Term", "!PLANTED && term != entry.Term"),
		},
		{
			name: "restart: a new leader counts the time before its election", mix: elects, caught: "restart",
			edits: in("ack/leader.memberTracker.getOrCreate", "restartTimes{firstSeenAt: mt.electedAt}", "restartTimes{firstSeenAt: mt.electedAt - time.Duration(plantedAs(PLANTED))*time.Hour}"),
		},
		{
			name: "restart: the cluster waits forever for a node that does not return", mix: stuckLater(restarts), caught: "progress",
			edits: in("ack/leader.member.restartEntry", "graceIsOver := in", "graceIsOver := !PLANTED && in"),
		},
		{
			name: "restart: the cluster waits for a node that has returned", mix: mixCalled("in-place"), caught: "progress",
			edits: in("ack/leader.member.isServingAgain", "	case m.heartbeat.Boot <= restart.Boot ||", "	case PLANTED, m.heartbeat.Boot <= restart.Boot ||"),
		},
		{
			name: "restart: it ends with the first heartbeat of the next process", mix: restarts, caught: "restart",
			edits: in("ack/leader.member.isServingAgain", "m.freshEchoCount >= requiredFreshEchoes && m.hasFreshLease(in)\n", "(PLANTED || m.freshEchoCount >= requiredFreshEchoes && m.hasFreshLease(in))\n"),
		},
		{
			name: "restart: a joining node gets shards of a restarting node", mix: restarts, caught: "restart|G9",
			edits: in("ack/leader.placementInputs.placement", "placement.Restarting, placement.PreviousOwners = pi.restarting, pi.state.PreviousOwners()\n", "placement.Restarting, placement.PreviousOwners = pi.restarting, pi.state.PreviousOwners()\n		if PLANTED {\n			placement.Restarting = nil\n		}\n"),
		},
		{
			name: "restart: a restarting node is excluded because it is silent", mix: restarts, caught: "restart",
			edits: in("ack/leader.membership.appendMembers", "		restarting := in.isRestarting(node)\n", "		restarting := !PLANTED && in.isRestarting(node)\n"),
		},
		{
			name: "restart: a goodbye is sent while requests run", mix: restarts, caught: "G1",
			edits: in("ack/agent.Agent.finishStopping", "	if !a.abortAll(AbortGoodbye) {\n", "	if !(PLANTED && obs.RestartWithin > 0) && !a.abortAll(AbortGoodbye) {\n"),
		},
		{
			name: "restart: the statement of an operator ends it for one leader only", mix: aimed("restart 8, remove 6, elect 4, depose 3"), caught: "restart|G4",
			edits: in("ack.restartRecords.end", "ok && !restart.Ended {", "ok && !restart.Ended && !PLANTED {"),
		},
		{
			name: "rule 8: snapshots forget restarts", mix: aimed("restart 8, compact 4, kill 4, wipe 2"), caught: "G5",
			edits: in("ack.State.MarshalWithRegistry", "	w.writeRestarts(s.restarts)\n", "	w.writeRestarts([]restartRecords{s.restarts, {}}[plantedAs(PLANTED)])\n"),
		},
	}
}

// pointsOfRestarts are those of docs/internals/protocol-restart.md.
func pointsOfRestarts() []point {
	planted := func(clause string, names ...string) point {
		return point{of: "restart", clause: clause, planted: names}
	}
	return []point{
		planted("a restarting node is a member, regardless of heartbeats", "restart: a restarting node is excluded because it is silent"),
		planted("its target is exactly the shards that it owns", "restart: a joining node gets shards of a restarting node"),
		{
			of: "restart", clause: "a proposal does not need its acknowledgement",
			explained: "Without the rule other nodes wait, and a round ends with the restart. Needed: TestShardsOfOtherNodesMoveDuringARestart.",
		},
		{
			of: "restart", clause: "unless the proposal changes its shards",
			explained: "Redundant: the target is exactly these shards, and a proposal that differs from the target is replaced before a commit.",
		},
		{
			of: "restart", clause: "and a missing acknowledgement is not counted",
			explained: "A restarting node is a member in any case, so it is not excluded for that. Without the rule, a leader without any acknowledgement would step down.",
		},
		{
			of: "restart", clause: "its deadline starts at the end of the restart",
			explained: "A node that has returned has acknowledged the committed map, so an older open round must be waiting for other nodes. Needed: TestAckDeadlineStartsAtTheEndOfARestart.",
		},
		planted("each leader counts from its election", "restart: a new leader counts the time before its election"),
		planted("it counts for the leader that received the goodbye", "restart: a goodbye that an earlier leader received counts"),
		planted("a boot has one restart", "restart: a boot has several restarts"),
		planted("it ends when a later process is healthy", "restart: the cluster waits for a node that has returned", "restart: it ends with the first heartbeat of the next process"),
		planted("or when the grace is over", "restart: the cluster waits forever for a node that does not return"),
		{
			of: "restart", clause: "or with a map without the node",
			explained: "Only the statement of an operator excludes a restarting node, and that ends the restart. Ended restarts must be forgotten, too: TestNodeThatDoesNotReturnLosesItsShards.",
		},
		planted("snapshots contain it", "rule 8: snapshots forget restarts"),
		planted("or by the statement of an operator", "restart: the statement of an operator ends it for one leader only"),
		planted("the goodbye waits for running requests", "restart: a goodbye is sent while requests run"),
	}
}
