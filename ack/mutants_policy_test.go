package ack_test

// mutantsOfPolicy apply a request of an operator where it must not apply, or delay a change that
// must not wait.
func mutantsOfPolicy() []mutant {
	asks := aimed("policy 6, policy-elect 6, depose 2, kill 2").late()
	drains := aimed("policy 8, kill 1, join 1")
	marks := aimed("mark 8, mark-restart 4, mark-drain 4, kill 2, pause 3, isolate 4, hold 3, elect 2, compact 1")
	return []mutant{
		{
			name: "policy: a change of an earlier term counts", mix: asks, caught: "policy|G9",
			edits: in("ack.State.applyPolicy", "term != entry.Term", "!PLANTED && term != entry.Term"),
		},
		{
			name: "policy: a change enters the log while a proposal is in transit", mix: drains.late(), caught: "G9",
			edits: in("ack/leader.Leader.maySubmit", "	// One entry at a time (rule 1): the next one depends on the outcome of this one.\n", "	if PLANTED && l.in.state.Bootstrapped() {\n		l.submitPolicyChange()\n	}\n"),
		},
		{
			name: "policy: a policy grants a lease", mix: aimed("policy 8, isolate 3, hold 3, elect 2"), caught: "G1|G2|G4|G5",
			edits: in("ack/leader.leaseIssuer.mayGrant", "	if !hasRequiredAck(", "	if PLANTED && in.state.Policy().Drained[node.id] {\n		return true\n	}\n	if !hasRequiredAck("),
		},
		{
			name: "policy: a pause delays the map after a loss", mix: stuckLater(aimed("pause-loss 4, policy 1")), caught: "progress",
			edits: in("ack/leader.assignment.update", "		final = in.assign(in.placement())\n", "		final = in.assign(in.placement())\n		if PLANTED && in.state.Policy().Pause > 0 {\n			final = in.state.Proposed()\n		}\n"),
		},
		{
			name: "policy: a new leader counts a pause from before its election", mix: aimed("policy 8, elect 3"), caught: "policy",
			edits: in("ack/leader.New", "pauseSeenAt: now}", "pauseSeenAt: now - time.Duration(plantedAs(PLANTED))*time.Hour}"),
		},
		{
			name: "policy: a repeated pause does not start again", mix: aimed("policy 8, elect 1"), caught: "policy",
			edits: in("ack/leader.policyQueue.applyPolicy", "	if after.PauseIndex != before.PauseIndex {\n", "	if after.PauseIndex != before.PauseIndex && !(PLANTED && before.Pause > 0) {\n"),
		},
		{
			name: "policy: a drained node counts as a member, and no other node remains", mix: drains, caught: "rule 10|panic|progress",
			edits: in("ack/leader.membership.isEligibleIgnoringFlaps", "	if node.isDrained(in) {\n", "	if !PLANTED && node.isDrained(in) {\n"),
		},
		{
			name: "policy: a shard pinned to a zone moves before its node has sent a heartbeat", mix: aimed("policy 8, elect 6"), caught: "G9",
			edits: in("ack/leader.memberTracker.zones", "		if node.hasHeartbeat() {\n", "		if node.hasHeartbeat() || PLANTED {\n"),
		},
		{
			name: "rule 8: snapshots forget the policy", mix: aimed("policy 6, compact 4, kill 4, wipe 2"), caught: "G5",
			edits: in("ack.State.MarshalWithRegistry", "	w.writePolicy(s.policy)\n", "	w.writePolicy([]*Policy{s.policy, {}}[plantedAs(PLANTED)])\n"),
		},
		{
			name: "rule 8: snapshots forget gradual drains", mix: aimed("policy 6, compact 4, kill 4, wipe 2"), caught: "gradual drain|G5|G9",
			edits: in("ack.writer.writePolicy", "	w.writeGradualDrains(policy.GradualDrains)\n", "	w.writeGradualDrains([]map[shardmap.NodeID]GradualDrain{policy.GradualDrains, nil}[plantedAs(PLANTED)])\n"),
		},
		{
			name: "mark-failed: the shards of a marked node are taken during its lease", mix: marks, caught: "G1|G4",
			edits: in("ack/leader.member.takeoverRule", "	case m.awaitsCrashRestart(in):\n", "	case PLANTED && in.isMarkedFailed(m):\n		return \"removed\"\n	case m.awaitsCrashRestart(in):\n"),
		},
		{
			name: "mark-failed: a marked node gets shards", mix: marks, caught: "mark-failed|progress|panic",
			edits: in("ack/leader.membership.isEligibleIgnoringFlaps", "|| in.isMarkedFailed(node) {", "|| !PLANTED && in.isMarkedFailed(node) {"),
		},
		{
			name: "mark-failed: a restart in place keeps the shards of a marked node", mix: marks, caught: "mark-failed|progress|G9",
			edits: in("ack/leader.member.restartEntry", "|| in.isMarkedFailed(m)", "|| !PLANTED && in.isMarkedFailed(m)"),
		},
		{
			name: "mark-failed: a marked node that drains keeps busy shards", mix: aimed("mark-drain 8, mark 2, elect 2, kill 1"), caught: "mark-failed|staging|progress",
			edits: in("ack/leader.membership.isReliable", "node.removed || in.isMarkedFailed(node)", "node.removed || !PLANTED && in.isMarkedFailed(node)"),
		},
		{
			name: "mark-failed: a marked node that drains safely keeps shards", mix: hooked("mark-drain 8, app-ill 8, mark 2, elect 2, kill 1"), caught: "mark-failed|progress",
			edits: in("ack/leader.membership.isResponsive", "!node.removed && !in.isMarkedFailed(node)", "!node.removed && (PLANTED || !in.isMarkedFailed(node))"),
		},
		{
			name: "rule 8: snapshots forget marks", mix: aimed("mark 6, compact 4, kill 4, wipe 2"), caught: "G5|mark-failed|G9",
			edits: in("ack.writer.writePolicy", "		w.writeNodeSet(policy.MarkedFailed)\n", "		w.writeNodeSet([]map[shardmap.NodeID]bool{policy.MarkedFailed, nil}[plantedAs(PLANTED)])\n"),
		},
		{
			name: "rule 8: snapshots forget reasons", mix: aimed("policy 6, compact 4, kill 4, wipe 2"), caught: "reason|G5|G9",
			edits: in("ack.writer.writePolicy", "		w.writeReasons(policy.Reasons)\n", "		w.writeReasons([]map[PolicyItem]string{policy.Reasons, nil}[plantedAs(PLANTED)])\n"),
		},
		{
			name: "gradual drain: a busy shard moves at once", mix: aimed("policy 8, elect 1"), caught: "gradual drain",
			edits: in("ack/leader.placementInputs.placement", "	placement.IdleShards = pi.idle.shards\n", "	placement.IdleShards = pi.idle.shards\n	if PLANTED {\n		placement.IdleShards = nil\n		for s := range shardmap.Shard(pi.state.Shards()) {\n			setKey(&placement.IdleShards, s, true)\n		}\n	}\n"),
		},
		{
			name: "gradual drain: a shard that was idle in an earlier map moves", mix: aimed("policy 12"), caught: "gradual drain",
			edits: both(in("ack/leader.Leader.applyCommit", "	l.idle.clear()\n", "	if !PLANTED {\n		l.idle.clear()\n	}\n"),
				in("ack/leader.Leader.recordIdle", "report.MapEpoch != l.in", "!PLANTED && report.MapEpoch != l.in")),
		},
		{
			name: "gradual drain: a round is replaced when another shard is idle", mix: aimed("policy 8, elect 1, hold 2"), caught: "gradual drain",
			edits: both(in("ack/leader.Leader.recordIdle", "	case report.IsAnswer && l.in.state.HasOpenProposal():", "	case report.IsAnswer && l.in.state.HasOpenProposal() && !(PLANTED && (!l.in.ownRoundOpen() || l.pending.exists())):"),
				in("ack/leader.Leader.recordIdle", "	case l.in.state.HasOpenProposal() || l.pending.exists():", "	case !PLANTED && (l.in.state.HasOpenProposal() || l.pending.exists()):")),
		},
		{
			name: "gradual drain: a new leader ignores the open round", mix: aimed("policy 8, elect 3"), caught: "gradual drain",
			edits: both(in("ack/leader.Leader.applyState", "		l.idle.deriveFromProposal(state)\n", "		if !PLANTED {\n			l.idle.deriveFromProposal(state)\n		}\n"),
				in("ack/leader.New", "		l.idle.deriveFromProposal(options.State)\n", "		if !PLANTED {\n			l.idle.deriveFromProposal(options.State)\n		}\n")),
		},
		{
			name: "gradual drain: a new leader counts the time before its election", mix: aimed("policy 8, elect 3"), caught: "gradual drain",
			edits: in("ack/leader.gradualDrains.finished", "		firstSeen[id] = sighting\n", "		if PLANTED && gd.firstSeen == nil {\n			sighting.seenAt -= 3600 * 1e9\n		}\n		firstSeen[id] = sighting\n"),
		},
		{
			name: "gradual drain: a repeated drain does not start again", mix: aimed("policy 8, elect 1"), caught: "gradual drain",
			edits: in("ack/leader.gradualDrains.finished", "		if sighting.entryIndex != drain.Index {\n", "		if sighting.entryIndex != drain.Index && !(PLANTED && sighting.entryIndex != 0) {\n"),
		},
		{
			name: "gradual drain: a drain never ends", mix: aimed("policy 8, elect 1"), caught: "progress",
			edits: in("ack/leader.gradualDrains.finished", "		isOver := ownsNothing || in.now-sighting.seenAt >= drain.Duration\n", "		isOver := !PLANTED && (ownsNothing || in.now-sighting.seenAt >= drain.Duration)\n"),
		},
		{
			name: "staging: a busy shard moves with the idle ones", mix: aimed("policy 4, leave 3, join 3, kill 1"), caught: "staging",
			edits: in("ack/leader.assignment.planStage", "		placement.DefersMoves = nodeSetOf(deferringOwners)\n", "		placement.DefersMoves = nodeSetOf(deferringOwners)\n		if PLANTED {\n			placement.IdleShards = nil\n			for s := range shardmap.Shard(a.inputs.state.Shards()) {\n				setKey(&placement.IdleShards, s, true)\n			}\n		}\n"),
		},
		{
			name: "staging: an idle shard never moves before drain-timeout", mix: aimed("policy 4, leave 3, join 3, kill 1"), caught: "staging",
			edits: in("ack/leader.Leader.recordIdleAnswer", "leavesBusyShard) {\n", "leavesBusyShard) || PLANTED && l.staged.progress[report.Node] != nil {\n"),
		},
		{
			name: "staging: an answer that arrives during another entry is dropped", mix: aimed("policy 8, leave 2, join 2").late(), caught: "staging",
			edits: in("ack/leader.Leader.recordIdle", "report.IsAnswer && !isAwaited {", "report.IsAnswer && (!isAwaited || PLANTED && l.pending.exists()) {"),
		},
		{
			name: "staging: answers count for the next change", mix: aimed("policy 12").late(), caught: "staging",
			edits: in("ack/leader.Leader.updateStagedMoves", "answerCounts := l.staged.progress[member.ID] != nil &&", "answerCounts := PLANTED || l.staged.progress[member.ID] != nil &&"),
		},
		{
			name: "staging: a stage never ends", mix: aimed("policy 4, leave 3, join 3, kill 1"), caught: "staging|progress",
			edits: in("ack/leader.stagedMoves.hasTimedOut", "progress != nil && progress.timedOut", "progress != nil && progress.timedOut && !PLANTED"),
		},
		{
			name: "staging: busy shards move after the first map", mix: aimed("policy 4, leave 3, join 3, kill 1"), caught: "staging",
			edits: in("ack/leader.stagedMoves.update", "		progress.timedOut = in.now-progress.startedAt >= in.pace.DrainTimeout\n", "		progress.timedOut = in.now-progress.startedAt >= in.pace.DrainTimeout || PLANTED && progress.proposals > 0\n"),
		},
		{
			name: "staging: a shard that was idle in an earlier map moves", mix: aimed("policy 6, leave 2, join 4"), caught: "staging|gradual drain",
			edits: both(in("ack/leader.idleShards.clear", "	is.set(nil)\n", "	if !PLANTED {\n		is.set(nil)\n	}\n"),
				in("ack/leader.idleShards.removeOwned", "		return owners[owner] && ", "		return !PLANTED && owners[owner] && ")),
		},
		{
			name: "staging: the shards of a dead owner wait for an answer", mix: aimed("policy 4, kill 6, join 6"), caught: "batching|progress",
			edits: in("ack/leader.Leader.mayProposeStage", "	if assigned.isUrgent {\n", "	if !PLANTED && assigned.isUrgent {\n"),
		},
		{
			name: "staging: each map of several pauses the cluster", mix: aimed("policy 4, leave 3, join 3"), caught: "staging",
			edits: in("ack/leader.Leader.mayDefer", "isStopTheWorld := l", "isStopTheWorld := !PLANTED && l"),
		},
		{
			name: "gradual drain: a draining node counts as a remaining member", mix: aimed("policy 8, kill 2, leave 1"), caught: "G9|rule 10|progress|gradual drain|G4",
			edits: in("ack/leader.membership.appendMembers", "!restarting && !in.state.Policy().DrainsGradually(id)", "!restarting && (PLANTED || !in.state.Policy().DrainsGradually(id))"),
		},
		{
			name: "rule 8: snapshots forget quarantines", mix: aimed("policy 6, compact 4, kill 4, wipe 2"), caught: "quarantine|G5",
			edits: in("ack.writer.writePolicy", "	w.writeQuarantines(policy.Quarantined)\n", "	w.writeQuarantines([]map[KeyFingerprint]Quarantine{policy.Quarantined, nil}[plantedAs(PLANTED)])\n"),
		},
		{
			name: "quarantine: a new leader counts the time before its election", mix: aimed("policy 8, elect 3"), caught: "quarantine",
			edits: in("ack/leader.quarantineTimers.setPolicy", "sighting = firstSighting{entryIndex: quarantine.Index, seenAt: now}", "sighting = firstSighting{entryIndex: quarantine.Index, seenAt: now - time.Duration(plantedAs(PLANTED && qt.firstSeen == nil))*time.Hour}"),
		},
		{
			name: "quarantine: a repeated quarantine does not start again", mix: aimed("policy 8, elect 1"), caught: "quarantine",
			edits: in("ack/leader.quarantineTimers.setPolicy", "		if sighting.entryIndex != quarantine.Index {\n", "		if sighting.entryIndex != quarantine.Index && !(PLANTED && sighting.entryIndex != 0) {\n"),
		},
		{
			name: "quarantine: an unlimited quarantine ends", mix: aimed("policy 8, elect 1"), caught: "quarantine",
			edits: in("ack/leader.quarantineTimers.setPolicy", "		if quarantine.Duration == 0 {\n", "		if !PLANTED && quarantine.Duration == 0 {\n"),
		},
		{
			name: "quarantine: no quarantine ends automatically", mix: aimed("policy 8, elect 1"), caught: "progress",
			edits: in("ack/leader.quarantineTimers.expiryChanges", "	if !qt.hasExpiry || now < qt.nextExpiry {\n", "	if PLANTED || !qt.hasExpiry || now < qt.nextExpiry {\n"),
		},
		{
			name: "quarantine: another key with the same hash lifts a quarantine", mix: aimed("policy 8, elect 1"), caught: "quarantine",
			edits: in("ack.Policy.endQuarantine", "quarantined.Shard == fingerprint.Shard && quarantined.Hash == fingerprint.Hash", "quarantined.Shard == fingerprint.Shard && quarantined.Hash == fingerprint.Hash && !(PLANTED && quarantined.HashKeyID != fingerprint.HashKeyID)"),
		},
	}
}

// stuckLater returns the mix with a node that often stays broken.
func stuckLater(m *simMix) *simMix {
	c := *m
	c.stuck = 900
	return &c
}
