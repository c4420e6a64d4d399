package ack_test

// mutantsOfKeptNotes give a process notes of the previous process for shards that have changed
// since, or withhold valid notes.
func mutantsOfKeptNotes() []mutant {
	restarts := hooked("restart 10, app-ill 4, elect 3, sick 3, kill 2")
	again := hooked("restart 8, kill 10, elect 2, sick 2")
	moves := hooked("restart 10, sick 6, join 4, app-ill 4, elect 3, leave 2")
	return []mutant{
		{
			name: "kept: the process after the next one gets the notes, too", mix: again, caught: "hooks",
			edits: in("ack/agent.nodeProcess.keptRelease", " && np.boot == kept.Boot+1\n", " && (np.boot == kept.Boot+1 || PLANTED && np.boot > kept.Boot)\n"),
		},
		{
			name: "kept: another disk gets the notes", mix: hooked("restart-wipe 8, elect 1"), caught: "hooks",
			edits: in("ack/agent.nodeProcess.keptRelease", "kept.Server == np.server &&", "(kept.Server == np.server || PLANTED) &&"),
		},
		{
			name: "kept: the next process acquires before its log contains the notes", mix: hooked("restart 14, compact 6, laggard 4"), caught: "hooks",
			edits: in("ack/agent.nodeProcess.hasPreviousReleases", "state.RestartsIndex() < np.restartIndex\n", "state.RestartsIndex() < np.restartIndex && !PLANTED\n"),
		},
		{
			name: "kept: a note is used after the shard has moved", mix: moves, caught: "hooks|G5",
			edits: in("ack.releaseRecords.recordMoves", "		delete(keptNotes, move.Shard)\n", "		if !PLANTED {\n			delete(keptNotes, move.Shard)\n		}\n"),
		},
		{
			name: "kept: a note is used after the shard has served", mix: hooked("restart 10, app-restart 10, elect 2, sick 2"), caught: "hooks",
			edits: in("ack/agent.hookMachine.advance", "		m.advanceAcquiring(now, ownership, held)\n", "		m.advanceAcquiring(now, ownership, held)\n		if _, kept := m.inputs.state.KeptRelease(shard); kept && PLANTED {\n			held.served = false\n		}\n"),
		},
		{
			name: "kept: a shard that was never acquired is kept as released by its owner", mix: moves, caught: "hooks",
			edits: in("ack.releaseRecords.recordRestart", "released: release.From == \"\",\n", "released: release.From == \"\" || PLANTED,\n"),
		},
		{
			name: "kept: a shard that was never acquired is not kept", mix: moves, caught: "hooks",
			edits: in("ack/agent.hookMachine.releaseOf", "	note, from, ok := m.process.inheritedNote(m.inputs.state, shard, held, ownership.epoch)\n", "	note, from, ok := m.process.inheritedNote(m.inputs.state, shard, held, ownership.epoch)\n	ok = ok && !(PLANTED && m.inputs.restartsInPlace)\n"),
		},
		{
			name: "kept: the notes of an earlier restart remain", mix: restarts, caught: "hooks",
			edits: in("ack.releaseRecords.recordRestart", "		delete(keptNotes, shard)\n	}\n	for _, release", "		if !PLANTED {\n			delete(keptNotes, shard)\n		}\n	}\n	for _, release"),
		},
		{
			name: "kept: the node sends a goodbye before the leader has the notes", mix: restarts, caught: "hooks",
			edits: in("ack/agent.hookMachine.readyToStop", "	return !m.deliveryPending(now)\n", "	return PLANTED || !m.deliveryPending(now)\n"),
		},
		{
			name: "kept: a later leader does not wait for the notes", mix: hooked("restart 10, elect 12, sick 2"), caught: "hooks",
			edits: in("ack/leader.Leader.submitRestart", "		if node.awaitsReleases(l.in) &&", "		if !PLANTED && node.awaitsReleases(l.in) &&"),
		},
		{
			name: "kept: a shard gained while the goodbye waits is forgotten", mix: moves, caught: "hooks",
			edits: in("ack/agent.hookMachine.prepareKeptReleases", "m.inputs.restartsInPlace && m.keptReleasesEpoch != epoch && acked > 0 {", "m.inputs.restartsInPlace && (m.keptReleasesEpoch == 0 || m.keptReleasesEpoch != epoch && !PLANTED) && acked > 0 {"),
		},
		{
			name: "rule 8: snapshots forget what a restart keeps", mix: hooked("restart 8, compact 6, kill 6, sick 2"), caught: "G5|hooks",
			edits: in("ack.State.MarshalWithRegistry", "	w.writeReleaseRecords(s.releaseRecords.kept)\n", "	w.writeReleaseRecords([]map[shardmap.Shard]releaseRecord{s.releaseRecords.kept, nil}[plantedAs(PLANTED)])\n"),
		},
	}
}

// pointsOfKeptNotes are those of what a restart in place keeps.
func pointsOfKeptNotes() []point {
	planted := func(clause string, names ...string) point {
		return point{of: "kept", clause: clause, planted: names}
	}
	return []point{
		planted("all shards that it has released or received as released", "kept: a shard that was never acquired is not kept", "kept: a shard gained while the goodbye waits is forgotten"),
		planted("with the note that it came with", "kept: a shard that was never acquired is kept as released by its owner"),
		planted("the goodbye waits until the leader has the notes", "kept: the node sends a goodbye before the leader has the notes"),
		planted("a later leader waits for the notes", "kept: a later leader does not wait for the notes"),
		{
			of: "kept", clause: "and gets them again",
			explained: "Without the repetition the notes are lost, as they are with lost messages. TestLaterLeaderGetsReleasesOfAGoodbye.",
		},
		{
			of: "kept", clause: "for shards owned since its last acknowledgement",
			explained: "A restarting node gets no shards, and before the restart each map that gives it a shard needs its acknowledgement, which includes the notes again. Redundant: TestKeptNotesCoverTheShardsOfThatTime.",
		},
		planted("for the disk", "kept: another disk gets the notes"),
		planted("and the next boot only", "kept: the process after the next one gets the notes, too"),
		planted("which waits until its log contains them", "kept: the next process acquires before its log contains the notes"),
		planted("until the shard has served", "kept: a note is used after the shard has served"),
		planted("or moves", "kept: a note is used after the shard has moved"),
		planted("each restart replaces the notes", "kept: the notes of an earlier restart remain"),
		planted("snapshots contain it", "rule 8: snapshots forget what a restart keeps"),
		{
			of: "kept", clause: "recover and restore forget the notes",
			explained: "The simulation has no recovery. TestNothingIsKeptAfterRecovery.",
		},
	}
}
