package ack_test

// mutantsOfReleases mark the state that an app loads as final although it is not, or the other
// way round.
func mutantsOfReleases() []mutant {
	moves := hooked("sick 6, elect 4, depose 4, app-ill 6, leave 3, join 4, kill 2, no-deliver 2")
	again := hooked("kill 8, sick 4, elect 2, join 3")
	apps := hooked("app-restart 8, sick 4, join 4, app-ill 4, elect 2")
	return []mutant{
		{
			name: "released: an acknowledgement counts before the leader has its releases", mix: moves, caught: "hooks",
			edits: in("ack/leader.member.hasCompleteAck", "	return ackedNewerEpoch ||", "	return PLANTED || ackedNewerEpoch ||"),
		},
		{
			name: "released: releases for another proposal are passed on", mix: moves, caught: "hooks",
			edits: both(in("ack/leader.member.hasReleases", "	return m.heartbeat.ReleasesDigest ==", "	return PLANTED || m.heartbeat.ReleasesDigest =="),
				in("ack/leader.memberTracker.collectHandover", " node.heartbeat.Acked != proposed.Epoch() {\n", " node.heartbeat.Acked != proposed.Epoch() && !PLANTED {\n")),
		},
		{
			name: "released: the releases for one proposal are forgotten with the next one", mix: moves, caught: "hooks",
			edits: in("ack/agent.hookMachine.prepareReleases", "			releases.Shards = append(releases.Shards, release)\n", "			releases.Shards = append(releases.Shards, release)\n			m.shards[shard].released = m.shards[shard].released && !PLANTED\n"),
		},
		{
			name: "released: an acquire does not void an earlier release", mix: moves, caught: "hooks",
			edits: in("ack/agent.hookMachine.fillAcquire", "	held.released, held.note = false, nil\n", "	held.released = held.released && PLANTED\n"),
		},
		{
			name: "released: a release of an earlier ownership epoch is reported again", mix: moves, caught: "hooks",
			edits: both(in("ack/agent.heldShard.beginAcquiring", "		hs.released, hs.note = false, nil\n", "		if !PLANTED {\n			hs.released, hs.note = false, nil\n		}\n"),
				in("ack/agent.hookMachine.releaseOf", "	if held.released && held.epoch == ownership.epoch {\n", "	if held.released && (held.epoch == ownership.epoch || PLANTED) {\n")),
		},
		{
			name: "released: a shard that has served is acquired as released again", mix: apps, caught: "hooks",
			edits: in("ack/agent.nodeProcess.inheritedNote", "	if held.served && held.epoch == epoch {\n", "	if held.served && held.epoch == epoch && !PLANTED {\n"),
		},
		{
			name: "released: the next process acquires as released a shard that the previous one has served", mix: again, caught: "hooks",
			edits: in("ack/agent.nodeProcess.movedNote", " && !np.mayHaveServedBefore(epoch)\n", " && (PLANTED || !np.mayHaveServedBefore(epoch))\n"),
		},
		{
			name: "released: a shard that was never acquired is not passed back", mix: moves, caught: "hooks",
			edits: in("ack/agent.hookMachine.releaseOf", "	return ack.Released{Shard: shard, From: from, Note: note}, ok\n", "	return ack.Released{Shard: shard, From: from, Note: note}, ok && !PLANTED\n"),
		},
		{
			name: "released: a shard that is passed back counts as released by its owner", mix: moves, caught: "hooks",
			edits: in("ack.previousOwners.withCommit", "		returned[release.Shard] = release.From != \"\"\n", "		returned[release.Shard] = release.From != \"\" && !PLANTED\n"),
		},
		{
			name: "released: a release counts for every later owner", mix: moves, caught: "hooks|G5",
			edits: in("ack.releaseRecords.recordMoves", "		delete(notes, move.Shard)\n", "		if x, ok := notes[move.Shard]; PLANTED && ok {\n			for _, h := range proposed.Members() {\n				if h.ID == move.To {\n					x.server = string(move.To) + \"/1\"\n					notes[move.Shard] = x\n				}\n			}\n		} else {\n			delete(notes, move.Shard)\n		}\n"),
		},
		{
			name: "released: a node waits forever for the leader to confirm its releases", mix: moves, caught: "hooks|progress",
			edits: in("ack/agent.releaseDelivery.sendDue", "	case now >= d.giveUpAt:\n", "	case now >= d.giveUpAt && !PLANTED:\n"),
		},
		{
			name: "released: lost releases are not sent again", mix: moves, caught: "hooks",
			edits: in("ack/agent.releaseDelivery.sendDue", "		d.resendAt = now + resendInterval\n", "		if d.resendAt = now + resendInterval; PLANTED {\n			d.resendAt += time.Hour\n		}\n"),
		},
		{
			name: "released: a shard whose release failed counts as released", mix: moves, caught: "hooks",
			edits: in("ack/agent.hookMachine.applyResult", "		m.callFailed(now, call, result, callShard.Shard, held)\n", "		m.callFailed(now, call, result, callShard.Shard, held)\n		held.released = held.released || PLANTED && call.Kind == HookRelease\n"),
		},
	}
}
