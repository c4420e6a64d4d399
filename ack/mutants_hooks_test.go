package ack_test

import "time"

// hooked is aimed at clusters whose apps have hooks.
func hooked(list string) *simMix {
	m := aimed(list)
	m.hooks, m.gaps[1] = 100, 1200*time.Millisecond
	return m
}

// mutantsOfHooks make an app serve a shard that it has not acquired, or write to a shard that
// another app has already acquired.
func mutantsOfHooks() []mutant {
	moves := hooked("sick 6, elect 4, depose 2, app-ill 6, leave 3, join 2, kill 2")
	gone := hooked("isolate 6, one-way 4, halves 3, app-ill 8, sick 4, kill 3, depose 3")
	return []mutant{
		{
			name: "hooks: a shard is served before its app has acquired it", mix: moves, caught: "hooks",
			edits: in("ack.Routing.hasAcquired", "	return rt.acquired == nil ||", "	return PLANTED || rt.acquired == nil ||"),
		},
		{
			name: "hooks: a shard is served while its app releases it", mix: moves, caught: "hooks",
			edits: in("ack/agent.heldShard.servingEpoch", "	if hs.phase != HookServing {\n		return 0\n", "	if hs.phase != HookServing && !(PLANTED && hs.phase == HookReleasing) {\n		return 0\n"),
		},
		{
			name: "hooks: an acquire that failed counts as done", mix: moves, caught: "hooks",
			edits: in("ack/agent.hookMachine.applyResult", "		if !failed {\n			m.callSucceeded(", "		if !failed || PLANTED && call.Kind == HookAcquire {\n			m.callSucceeded("),
		},
		{
			name: "hooks: a shard that was released and did not move is served again without an acquire", mix: moves, caught: "hooks",
			edits: in("ack/agent.heldShard.resume", "	if hs.releaseAttempted {\n", "	if hs.releaseAttempted && !PLANTED {\n"),
		},
		{
			name: "hooks: the node acknowledges while the app releases", mix: moves, caught: "hooks",
			edits: in("ack/agent.hookMachine.movesReleased", "		if held.callSeq != 0 || !held.isNotHeld() {\n", "		if PLANTED {\n			continue\n		}\n		if held.callSeq != 0 || !held.isNotHeld() {\n"),
		},
		{
			name: "hooks: the node sends a goodbye while the app releases", mix: hooked("leave 6, sick 3, app-ill 4"), caught: "hooks",
			edits: in("ack/agent.hookMachine.readyToStop", "	if m.stopAwaitsShards(now) ||", "	if PLANTED {\n		return true\n	}\n	if m.stopAwaitsShards(now) ||"),
		},
		{
			name: "hooks: calls continue long after the end of the lease", mix: hooked("app-hangs 1"), caught: "hooks",
			edits: in("ack/agent.Agent.abortAfterLease", "		a.hooks.calls.cancelAll()\n", "		if !PLANTED {\n			a.hooks.calls.cancelAll()\n		}\n"),
		},
		{
			name: "hooks: two calls name the same shard at the same time", mix: moves, caught: "hooks",
			edits: in("ack/agent.hookMachine.neededCall", "	case held.callSeq != 0:", "	case held.callSeq != 0 && !PLANTED:"),
		},
		{
			name: "hooks: seq starts again with every process", mix: hooked("kill 6, elect 2, sick 2"), caught: "progress|hooks",
			edits: in("ack/agent.runningCalls.nextSeq", "return boot<<32 + rc.count\n", "return boot*uint64(1-plantedAs(PLANTED))<<32 + rc.count\n"),
		},
		{name: "hooks: an app does what a call of before the last one said", mix: hooked("app-ill 10, sick 4, elect 4, kill 2"), plant: plantAppKeepsNoSeq, caught: "hooks"},
		{
			name: "hooks: a shard is released while its requests run", mix: moves, caught: "hooks",
			edits: in("ack/agent.hookMachine.mayGiveUp", "m.options.App.CountRequests(shard) > 0 {", "!PLANTED && m.options.App.CountRequests(shard) > 0 {"),
		},
		{
			name: "hooks: a node that was partitioned releases shards that the next owner serves", mix: gone, caught: "hooks",
			edits: both(both(in("ack/agent.hookMachine.advanceServing", "	if !ownership.isOwnerUnder(held.epoch) {\n", "	if !ownership.isOwnerUnder(held.epoch) && !PLANTED {\n"),
				both(in("ack/agent.hookMachine.advanceReleasing", "	if !ownership.isOwnerUnder(held.epoch) {\n", "	if !ownership.isOwnerUnder(held.epoch) && !PLANTED {\n"),
					in("ack/agent.hookMachine.advanceReleasing", "	if !m.isReleaseOverdue(now, shard) {\n", "	if PLANTED || !m.isReleaseOverdue(now, shard) {\n"))),
				in("ack/agent.hookMachine.neededCall", "	case held.phase == HookReleasing && ", "	case held.phase == HookReleasing && PLANTED, held.phase == HookReleasing && ")),
		},
		{
			name: "hooks: a shard is released without a lease", mix: gone, caught: "hooks",
			edits: in("ack/agent.hookMachine.neededCall", " m.inputs.mayRelease:\n", " (m.inputs.mayRelease || PLANTED && !m.inputs.stopping):\n"),
		},
		{
			name: "hooks: the app gets no lost call", mix: gone, caught: "hooks|progress",
			edits: in("ack/agent.heldShard.abandon", "	hs.needsLostCall, hs.lostCallDeadline = hs.appMayHold, now+lostCallRetryTime\n", "	hs.needsLostCall, hs.lostCallDeadline = hs.appMayHold && !PLANTED, now+lostCallRetryTime\n"),
		},
		{
			name: "hooks: the node acknowledges before the lost calls", mix: gone, caught: "hooks",
			edits: both(in("ack/agent.hookMachine.movesReleased", "		if held.needsLostCall && now < m.deadlines.release {\n", "		if held.needsLostCall && now < m.deadlines.release && !PLANTED {\n"),
				in("ack/agent.hookMachine.mayGiveUp", "	if now >= m.callDeadline(shard) {\n", "	if now >= m.callDeadline(shard) || PLANTED && m.inputs.drainingEpoch != 0 && !m.ownershipOf(shard).keepsShard {\n")),
		},
		{
			name: "hooks: the node waits forever for a release", mix: moves, caught: "hooks|progress",
			edits: in("ack/agent.deadlineOrNever", "	if disabled || deadline == 0 {\n		return never\n", "	if disabled || deadline == 0 || PLANTED {\n		return never\n"),
		},
		{
			name: "hooks: the leader does not wait longer for a node that releases", mix: hooked("sick 4, kill 4, join 4, app-ill 16"), caught: "rule 1",
			edits: in("ack/leader.member.ackDeadline", "pace.AckDeadline() + m.heartbeat.ReleaseTime\n", "pace.AckDeadline() + m.heartbeat.ReleaseTime*time.Duration(1-plantedAs(PLANTED))\n"),
		},
		{
			name: "hooks: a shard is acquired without a lease", mix: gone, caught: "hooks",
			edits: in("ack/agent.hookMachine.neededCall", "	case held.phase == HookAcquiring && m.inputs.hasLease &&", "	case held.phase == HookAcquiring && (PLANTED || m.inputs.hasLease) &&"),
		},
		{
			name: "hooks: a shard acquired without a lease is served under a later epoch", mix: gone, caught: "hooks",
			edits: in("ack/agent.heldShard.setPhase", "maxBatch: MaxHookShards}\n", "maxBatch: MaxHookShards, appAcquired: hs.appAcquired && PLANTED}\n"),
		},
		{
			name: "hooks: a shard that moves is acquired", mix: moves, caught: "hooks",
			edits: both(in("ack/agent.hookMachine.advanceAcquiring", "	if !ownership.keepsShard || ", "	if !ownership.keepsShard && !PLANTED || "),
				in("ack/agent.hookMachine.advance", "	if held.isNotHeld() && ownership.keepsShard {\n", "	if held.isNotHeld() && (ownership.keepsShard || PLANTED && ownership.isOwner) {\n")),
		},
		{
			name: "hooks: an acquire call for a moving shard continues", mix: moves, caught: "hooks",
			edits: in("ack/agent.hookMachine.isObsolete", "		return !ownership.keepsShard || !ownsUnderEpoch\n", "		return !PLANTED && (!ownership.keepsShard || !ownsUnderEpoch)\n"),
		},
		{
			name: "hooks: an acquire that failed is not repeated", mix: moves, caught: "progress",
			edits: in("ack/agent.hookMachine.callFailed", "	held.nextAttempt = now + held.retryPause\n", "	held.nextAttempt = now + held.retryPause\n	if PLANTED {\n		held.nextAttempt += time.Hour\n	}\n"),
		},
		{
			name: "hooks: a shard that an earlier process acquired is acquired without Again", mix: hooked("kill 6, sick 2, elect 2"), caught: "hooks",
			edits: in("ack/agent.hookMachine.fillAcquire", "held.appMayHold || m.process.mayHaveServedBefore(held.epoch)\n", "held.appMayHold || m.process.mayHaveServedBefore(held.epoch) && !PLANTED\n"),
		},
		{
			name: "hooks: an app that does not hold a shard gets no acquire call", mix: hooked("app-restart 8, sick 2, elect 2"), caught: "progress",
			edits: in("ack/agent.Agent.ShardNotAcquired", "	if m := a.hooks; m != nil && int(shard) < len(m.shards) {\n", "	if m := a.hooks; m != nil && int(shard) < len(m.shards) && !PLANTED {\n"),
		},
		{
			name: "unacquired: a shard stays though another app could acquire it", mix: hooked("app-ill 8, sick 4, leave 2, join 2"), caught: "unacquired|G9",
			edits: in("ack/leader.placementInputs.avoidFailingApps", "	if len(failing) == 0 {\n", "	if len(failing) == 0 || PLANTED {\n"),
		},
		{
			name: "unacquired: a shard goes to a node whose app has failed, too", mix: hooked("app-ill 8, sick 4, leave 2, join 2"), caught: "unacquired|G9",
			edits: in("ack/leader.relocation.leastLoaded", "!allowed || failing[member.ID] {", "!allowed || failing[member.ID] && !PLANTED {"),
		},
		{
			name: "unacquired: a node whose app acquires nothing gets more shards", mix: hooked("app-ill 8, sick 4, leave 2, join 2"), caught: "G9",
			edits: in("ack/leader.placementInputs.cordonFailingApps", "node.heartbeat.AcquiresNone && !placement.Cordoned", "node.heartbeat.AcquiresNone && !PLANTED && !placement.Cordoned"),
		},
		{
			name: "safe: a safe drain moves a shard that was not released", mix: hooked("policy 10, app-ill 8, sick 2"), caught: "safe",
			edits: in("ack/agent.hookMachine.keepsUnreleased", "return m.deadlines.drain.Safe &&", "return !PLANTED && m.deadlines.drain.Safe &&"),
		},
		{
			name: "hooks: an acquire call names no previous owner", mix: moves, caught: "hooks",
			edits: in("ack.previousOwners.withCommit", "	if len(moves) == 0 {\n", "	if PLANTED || len(moves) == 0 {\n"),
		},
	}
}
