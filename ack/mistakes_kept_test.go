package ack_test

// mistakesOfKept are those with which a process is told that its shards are as the one
// before it released them to restart in place, and they are not; or is not told.
func mistakesOfKept() []mistake {
	restarts := hooked("restart 10, app-ill 4, elect 3, sick 3, kill 2")
	again := hooked("restart 8, kill 10, elect 2, sick 2")
	moves := hooked("restart 10, sick 6, join 4, app-ill 4, elect 3, leave 2")
	return []mistake{
		{
			name: "kept: the process after the next is told, too", mix: again, caught: "hooks",
			edits: in("ack/agent.hookMachine.inheritedNote", " && m.boot == k.Boot+1 {", " && (m.boot == k.Boot+1 || PLANTED && m.boot > k.Boot) {"),
		},
		{
			name: "kept: another disk is told", mix: hooked("restart-wipe 8, elect 1"), caught: "hooks",
			edits: in("ack/agent.hookMachine.inheritedNote", "state.Kept(s); ok && k.Server == m.server &&", "state.Kept(s); ok && (k.Server == m.server || PLANTED) &&"),
		},
		{
			name: "kept: the next process acquires before its log tells what is kept", mix: hooked("restart 14, compact 6, laggard 4"), caught: "hooks",
			edits: in("ack/agent.hookMachine.dueCall", "m.seen.state.RestartsIndex() < m.restartIndex {", "m.seen.state.RestartsIndex() < m.restartIndex && !PLANTED {"),
		},
		{
			name: "kept: it is told after the shard has moved", mix: moves, caught: "hooks|G5",
			edits: in("ack.State.recordReleases", "		delete(kept, m.Shard)\n", "		if !PLANTED {\n			delete(kept, m.Shard)\n		}\n"),
		},
		{
			name: "kept: it is told after the shard has served", mix: hooked("restart 10, app-restart 10, elect 2, sick 2"), caught: "hooks",
			edits: in("ack/agent.hookMachine.advance", "			h.served = true\n", "			_, kept := m.seen.state.Kept(s)\n			h.served = !PLANTED || !kept\n"),
		},
		{
			name: "kept: what was got and not acquired is kept as the owner's own", mix: moves, caught: "hooks",
			edits: in("ack.State.recordKept", "released: r.From == \"\"}", "released: r.From == \"\" || PLANTED}"),
		},
		{
			name: "kept: what was got and not acquired is not kept", mix: moves, caught: "hooks",
			edits: in("ack/agent.hookMachine.releaseOf", "	note, from, ok := m.inheritedNote(s, h, st.epoch)\n", "	note, from, ok := m.inheritedNote(s, h, st.epoch)\n	ok = ok && !(PLANTED && m.seen.returns)\n"),
		},
		{
			name: "kept: what an earlier restart has kept stays", mix: restarts, caught: "hooks",
			edits: in("ack.State.recordKept", "		delete(next, shard)\n	}\n	for _, r", "		if !PLANTED {\n			delete(next, shard)\n		}\n	}\n	for _, r"),
		},
		{
			name: "kept: goodbye is said before the leader has it", mix: restarts, caught: "hooks",
			edits: in("ack/agent.hookMachine.readyToStop", "	return !m.deliveryPending(now)\n", "	return PLANTED || !m.deliveryPending(now)\n"),
		},
		{
			name: "kept: a later leader does not wait for it", mix: hooked("restart 10, elect 12, sick 2"), caught: "hooks",
			edits: in("ack.Leader.submitRestart", "		if l.awaitsReleases(now, n) && !l.clientsWait(now) {", "		if l.awaitsReleases(now, n) && !l.clientsWait(now) && !PLANTED {"),
		},
		{
			name: "kept: what is got while goodbye waits is forgotten", mix: moves, caught: "hooks",
			edits: in("ack/agent.hookMachine.readyToStop", "m.seen.returns && m.keptForEpoch != e && acked > 0 {", "m.seen.returns && (m.keptForEpoch == 0 || m.keptForEpoch != e && !PLANTED) && acked > 0 {"),
		},
		{
			name: "rule 8: snapshots forget what a restart keeps", mix: hooked("restart 8, compact 6, kill 6, sick 2"), caught: "G5|hooks",
			edits: in("ack.State.MarshalBinary", "	w.releaseNotes(s.keptNotes)\n", "	w.releaseNotes([]map[shardmap.Shard]releaseNote{s.keptNotes, nil}[plantedAs(PLANTED)])\n"),
		},
	}
}

// pointsOfKept are those of what a restart in place keeps.
func pointsOfKept() []point {
	planted := func(clause string, names ...string) point {
		return point{of: "kept", clause: clause, planted: names}
	}
	return []point{
		planted("all that it has released or got as released", "kept: what was got and not acquired is not kept", "kept: what is got while goodbye waits is forgotten"),
		planted("as it came", "kept: what was got and not acquired is kept as the owner's own"),
		planted("goodbye waits until the leader has it", "kept: goodbye is said before the leader has it"),
		planted("a later leader waits for it", "kept: a later leader does not wait for it"),
		{
			of: "kept", clause: "and gets it again",
			explained: "Who does not send it again loses it, as one does whose messages are lost. TestLaterLeaderGetsReleasesOfAGoodbye.",
		},
		{
			of: "kept", clause: "of shards that it has had since what it had acknowledged",
			explained: "Who is absent gets nothing, and before that each map that gives it a shard needs its word, with which it tells anew what it keeps. A second lock: TestKeptNotesCoverTheShardsOfThatTime.",
		},
		planted("for the disk", "kept: another disk is told"),
		planted("and the next boot alone", "kept: the process after the next is told, too"),
		planted("which waits until its log says so", "kept: the next process acquires before its log tells what is kept"),
		planted("until the shard has served", "kept: it is told after the shard has served"),
		planted("or moves", "kept: it is told after the shard has moved"),
		planted("each restart begins anew", "kept: what an earlier restart has kept stays"),
		planted("snapshots have it", "rule 8: snapshots forget what a restart keeps"),
		{
			of: "kept", clause: "recover and restore forget it",
			explained: "The simulation recovers nothing. TestNothingIsKeptAfterRecovery.",
		},
	}
}
