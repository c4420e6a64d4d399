package ack_test

import "time"

// hooked is aimed at clusters whose apps are told what they hold.
func hooked(list string) *simMix {
	m := aimed(list)
	m.hooks, m.gaps[1] = 100, 1200*time.Millisecond
	return m
}

// mistakesOfHooks are those with which an app runs what it has not loaded, or writes
// what another one has loaded already.
func mistakesOfHooks() []mistake {
	moves := hooked("sick 6, elect 4, depose 2, app-ill 6, leave 3, join 2, kill 2")
	gone := hooked("isolate 6, one-way 4, halves 3, app-ill 8, sick 4, kill 3, depose 3")
	return []mistake{
		{
			name: "hooks: a shard is served before its app has acquired it", mix: moves, caught: "hooks",
			edits: in("ack.Routing.has", "	return r.acquired == nil ||", "	return PLANTED || r.acquired == nil ||"),
		},
		{
			name: "hooks: a shard is served while its app releases it", mix: moves, caught: "hooks",
			edits: in("ack.holding.serves", "	if h.phase != HookServing {\n		return 0\n", "	if h.phase != HookServing && !(PLANTED && h.phase == HookReleasing) {\n		return 0\n"),
		},
		{
			name: "hooks: an acquire that failed counts as done", mix: moves, caught: "hooks",
			edits: in("ack.hooks.take", "		if !failed {\n			k.done(", "		if !failed || PLANTED && c.Kind == HookAcquire {\n			k.done("),
		},
		{
			name: "hooks: a shard that was released for nothing is served again without an acquire", mix: moves, caught: "hooks",
			edits: in("ack.hooks.turn", "		case st.stays && h.tried:\n", "		case st.stays && h.tried && !PLANTED:\n"),
		},
		{
			name: "hooks: acknowledged while the app releases", mix: moves, caught: "hooks",
			edits: in("ack.hooks.settled", "		if h.call != 0 || !h.gone() ||", "		if PLANTED {\n			continue\n		}\n		if h.call != 0 || !h.gone() ||"),
		},
		{
			name: "hooks: goodbye is said while the app releases", mix: hooked("leave 6, sick 3, app-ill 4"), caught: "hooks",
			edits: in("ack.hooks.parted", "	for s := range k.shards {\n		if h := &k.shards[s]; h.phase == HookReleasing ||", "	for s := range k.shards {\n		if PLANTED {\n			return true\n		}\n		if h := &k.shards[s]; h.phase == HookReleasing ||"),
		},
		{
			name: "hooks: calls go on after the lease is long over", mix: hooked("app-hangs 1"), caught: "hooks",
			edits: in("ack.Agent.Look", "			a.hooks.endAll()\n", "			if !PLANTED {\n				a.hooks.endAll()\n			}\n"),
		},
		{
			name: "hooks: two calls name one shard at once", mix: moves, caught: "hooks",
			edits: in("ack.hooks.due", "	case h.call != 0:\n		return 0\n", "	case h.call != 0 && !PLANTED:\n		return 0\n"),
		},
		{
			name: "hooks: seq starts anew with every process", mix: hooked("kill 6, elect 2, sick 2"), caught: "progress|hooks",
			edits: in("ack.hooks.call", "Seq: k.boot<<32 + k.calls,", "Seq: k.boot*uint64(1-plantedAs(PLANTED))<<32 + k.calls,"),
		},
		{name: "hooks: an app does what a call of before the last one said", mix: hooked("app-ill 10, sick 4, elect 4, kill 2"), plant: plantAppKeepsNoSeq, caught: "hooks"},
		{
			name: "hooks: a shard is released while its requests run", mix: moves, caught: "hooks",
			edits: in("ack.hooks.due", "k.o.App.Busy(s) > 0 {", "!PLANTED && k.o.App.Busy(s) > 0 {"),
		},
		{
			name: "hooks: a healed node releases what its successor serves", mix: gone, caught: "hooks",
			edits: both(both(in("ack.hooks.turn", "		case !same:\n			h.leave(now)\n		case !st.stays:\n", "		case !same && !PLANTED:\n			h.leave(now)\n		case !st.stays:\n"),
				in("ack.hooks.turn", "		case !same:\n			h.leave(now)\n		case !st.stays && k.late(now, s) && k.keeps(s, h):\n			// the next proposal leaves it here\n		case !st.stays && k.late(now, s):\n", "		case !same && !PLANTED:\n			h.leave(now)\n		case !st.stays && k.late(now, s) && !PLANTED && k.keeps(s, h):\n			// the next proposal leaves it here\n		case !st.stays && k.late(now, s) && !PLANTED:\n")),
				in("ack.hooks.due", "	case h.phase == HookReleasing && ", "	case h.phase == HookReleasing && PLANTED, h.phase == HookReleasing && ")),
		},
		{
			name: "hooks: a shard is released without a lease", mix: gone, caught: "hooks",
			edits: in("ack.hooks.due", " k.saw.granted:\n		kind = HookRelease\n", " (k.saw.granted || PLANTED && !k.saw.parting):\n		kind = HookRelease\n"),
		},
		{
			name: "hooks: an app is not told what it has lost", mix: gone, caught: "hooks|progress",
			edits: in("ack.holding.leave", "	h.forget, h.forgetBy = h.told, now+lostFor\n", "	h.forget, h.forgetBy = h.told && !PLANTED, now+lostFor\n"),
		},
		{
			name: "hooks: acknowledged before the app knows what it has lost", mix: gone, caught: "hooks",
			edits: both(in("ack.hooks.settled", " || h.forget && now < k.releaseBy {\n			return false\n", " || h.forget && now < k.releaseBy && !PLANTED {\n			return false\n"),
				in("ack.hooks.due", "	if now >= k.deadline(s) {\n", "	if now >= k.deadline(s) || PLANTED && k.saw.draining != 0 && !k.standing(s).stays {\n")),
		},
		{
			name: "hooks: a release is waited for without end", mix: moves, caught: "hooks|progress",
			edits: in("ack.unless", "	if off || by == 0 {\n		return math.MaxInt64\n", "	if off || by == 0 || PLANTED {\n		return math.MaxInt64\n"),
		},
		{
			name: "hooks: the leader waits no longer for who releases", mix: hooked("sick 4, kill 4, join 4, app-ill 16"), caught: "rule 1",
			edits: in("ack.Leader.ackDeadline", "l.o.Pace.AckDeadline() + n.beat.Release }", "l.o.Pace.AckDeadline() + n.beat.Release*time.Duration(1-plantedAs(PLANTED)) }"),
		},
		{
			name: "hooks: a shard is acquired without a lease", mix: gone, caught: "hooks",
			edits: in("ack.hooks.due", "	case h.phase == HookAcquiring && k.saw.leased:\n", "	case h.phase == HookAcquiring && (PLANTED || k.saw.leased):\n"),
		},
		{
			name: "hooks: what was acquired without a lease is served under a later epoch", mix: gone, caught: "hooks",
			edits: in("ack.holding.enter", "h.has, h.err = p, now, now, 0, MaxHookShards, false, false, \"\"\n", "h.has, h.err = p, now, now, 0, MaxHookShards, false, h.has && PLANTED, \"\"\n"),
		},
		{
			name: "hooks: a shard that moves is acquired", mix: moves, caught: "hooks",
			edits: both(in("ack.hooks.turn", "		case !st.stays || !same:\n			h.leave(now)\n", "		case !st.stays && !PLANTED || !same:\n			h.leave(now)\n"),
				in("ack.hooks.turn", "	if h.gone() && st.stays {\n", "	if h.gone() && (st.stays || PLANTED && st.mine) {\n")),
		},
		{
			name: "hooks: an acquire of a shard that moves goes on", mix: moves, caught: "hooks",
			edits: in("ack.hooks.hurry", "		over = !st.stays || st.epoch != h.epoch\n", "		over = (!st.stays || st.epoch != h.epoch) && !PLANTED\n"),
		},
		{
			name: "hooks: an acquire that failed is not tried again", mix: moves, caught: "progress",
			edits: in("ack.hooks.failed", "	h.due = now + h.pause\n", "	h.due = now + h.pause\n	if PLANTED {\n		h.due += time.Hour\n	}\n"),
		},
		{
			name: "hooks: what an earlier process acquired is acquired as if it were new", mix: hooked("kill 6, sick 2, elect 2"), caught: "hooks",
			edits: in("ack.hooks.call", "h.told || h.epoch <= k.since\n", "h.told || h.epoch <= k.since && !PLANTED\n"),
		},
		{
			name: "hooks: an app that says it holds nothing is not asked to acquire", mix: hooked("app-restart 8, sick 2, elect 2"), caught: "progress",
			edits: in("ack.Agent.NotAcquired", "	if k := a.hooks; k != nil && int(s) < len(k.shards) {\n", "	if k := a.hooks; k != nil && int(s) < len(k.shards) && !PLANTED {\n"),
		},
		{
			name: "unacquired: a shard stays though another app may acquire it", mix: hooked("app-ill 8, sick 4, leave 2, join 2"), caught: "unacquired|G9",
			edits: in("ack.Leader.relocate", "	if len(avoid) == 0 {\n", "	if len(avoid) == 0 || PLANTED {\n"),
		},
		{
			name: "unacquired: a shard goes to a node whose app has failed, too", mix: hooked("app-ill 8, sick 4, leave 2, join 2"), caught: "unacquired|G9",
			edits: in("ack.Leader.takes", "!may || avoid[m.ID] ||", "!may || avoid[m.ID] && !PLANTED ||"),
		},
		{
			name: "unacquired: a node whose app acquires nothing gets more shards", mix: hooked("app-ill 8, sick 4, leave 2, join 2"), caught: "G9",
			edits: in("ack.Leader.relocate", "n.beat.Unable && !p.Cordoned", "n.beat.Unable && !PLANTED && !p.Cordoned"),
		},
		{
			name: "safe: a drain takes what was not released", mix: hooked("policy 10, app-ill 8, sick 2"), caught: "safe",
			edits: in("ack.hooks.keeps", "k.refused || !k.terms().Safe {", "k.refused || PLANTED || !k.terms().Safe {"),
		},
		{
			name: "hooks: a new owner is told of nobody before it", mix: moves, caught: "hooks",
			edits: in("ack.State.succeed", "	if len(moves) == 0 {\n", "	if PLANTED || len(moves) == 0 {\n"),
		},
	}
}
