package ack_test

// mistakesOfReleases are those with which an app is told that what it loads is final, and
// it is not; or is not told, and it is.
func mistakesOfReleases() []mistake {
	moves := hooked("sick 6, elect 4, depose 4, app-ill 6, leave 3, join 4, kill 2, no-deliver 2")
	again := hooked("kill 8, sick 4, elect 2, join 3")
	apps := hooked("app-restart 8, sick 4, join 4, app-ill 4, elect 2")
	return []mistake{
		{
			name: "released: an acknowledgement counts before the leader has what it gives up", mix: moves, caught: "hooks",
			edits: in("ack.member.counts", "	return m.acked(e) && (", "	return m.acked(e) && (PLANTED || "),
		},
		{
			name: "released: what was given up for another proposal is passed on", mix: moves, caught: "hooks",
			edits: both(in("ack.member.handed", "	return r != nil && m.beat.Released == m.digest && r.Server == m.beat.Server && r.Boot == m.beat.Boot && r.Proposal == m.beat.Acked\n",
				"	return r != nil && r.Server == m.beat.Server && r.Boot == m.beat.Boot && (PLANTED || m.beat.Released == m.digest && r.Proposal == m.beat.Acked)\n"),
				in("ack.Leader.handsOver", " n.beat.Acked != p.Epoch() {\n", " n.beat.Acked != p.Epoch() && !PLANTED {\n")),
		},
		{
			name: "released: what one proposal has released is forgotten with the next", mix: moves, caught: "hooks",
			edits: in("ack.hooks.giveUp", "			r.Shards = append(r.Shards, x)\n", "			r.Shards = append(r.Shards, x)\n			k.shards[s].released = k.shards[s].released && !PLANTED\n"),
		},
		{
			name: "released: an acquire does not void what was released before it", mix: moves, caught: "hooks",
			edits: in("ack.hooks.call", "			h.released, h.note = false, nil\n", "			h.released = h.released && PLANTED\n"),
		},
		{
			name: "released: what was released under an ownership that has ended is given up again", mix: moves, caught: "hooks",
			edits: both(in("ack.hooks.turn", "		if !same {\n			h.released, h.note = false, nil\n		}\n", "		if !same && !PLANTED {\n			h.released, h.note = false, nil\n		}\n"),
				in("ack.hooks.gives", "	if h.released && h.epoch == st.epoch {\n", "	if h.released && (h.epoch == st.epoch || PLANTED) {\n")),
		},
		{
			name: "released: a shard is acquired as released again after it has served", mix: apps, caught: "hooks",
			edits: in("ack.hooks.untouched", "	if h.served && h.epoch == epoch {\n", "	if h.served && h.epoch == epoch && !PLANTED {\n"),
		},
		{
			name: "released: the next process acquires as released what the one before has served", mix: again, caught: "hooks",
			edits: in("ack.hooks.untouched", " && epoch > k.since {\n", " && (epoch > k.since || PLANTED) {\n"),
		},
		{
			name: "released: what was never acquired is not given back", mix: moves, caught: "hooks",
			edits: in("ack.hooks.gives", "	return Released{Shard: s, From: from, Note: note}, ok\n", "	return Released{Shard: s, From: from, Note: note}, ok && !PLANTED\n"),
		},
		{
			name: "released: what is given back is given as the owner's own", mix: moves, caught: "hooks",
			edits: in("ack.State.succeed", "		back[r.Shard] = r.From != \"\"\n", "		back[r.Shard] = r.From != \"\" && !PLANTED\n"),
		},
		{
			name: "released: what was released once counts for every owner after", mix: moves, caught: "hooks|G5",
			edits: in("ack.State.leave", "		delete(next, m.Shard)\n", "		if x, ok := next[m.Shard]; PLANTED && ok {\n			for _, h := range s.last.Members() {\n				if h.ID == m.To {\n					x.server = string(m.To) + \"/1\"\n					next[m.Shard] = x\n				}\n			}\n		} else {\n			delete(next, m.Shard)\n		}\n"),
		},
		{
			name: "released: a node waits without end for a leader to take what it gives up", mix: moves, caught: "hooks|progress",
			edits: in("ack.hooks.deliver", "	case now >= k.by:\n", "	case now >= k.by && !PLANTED:\n"),
		},
		{
			name: "released: what did not get to the leader is not sent again", mix: moves, caught: "hooks",
			edits: in("ack.hooks.deliver", "		k.again = now + deliverAgain\n", "		if k.again = now + deliverAgain; PLANTED {\n			k.again += time.Hour\n		}\n"),
		},
		{
			name: "released: a shard whose release failed passes as released", mix: moves, caught: "hooks",
			edits: in("ack.hooks.take", "		k.failed(now, c, r, hs.Shard, h, early)\n", "		k.failed(now, c, r, hs.Shard, h, early)\n		h.released = h.released || PLANTED && c.Kind == HookRelease\n"),
		},
	}
}
