package ack_test

// pointsOfHooks are those of docs/internals/protocol-state.md, State follows its shard.
func pointsOfHooks() []point {
	planted := func(clause string, names ...string) point {
		return point{of: "hooks", clause: clause, planted: names}
	}
	return []point{
		planted("requests are admitted only for serving shards", "hooks: a shard is served before its app has acquired it"),
		planted("a shard is releasing before the first byte of the release call", "hooks: a shard is served while its app releases it"),
		planted(
			"only a successful acquire leads to serving",
			"hooks: an acquire that failed counts as done", "hooks: a shard that was released and did not move is served again without an acquire",
		),
		planted("an acknowledgement waits for a call", "hooks: the node acknowledges while the app releases"),
		planted("and so does a goodbye", "hooks: the node sends a goodbye while the app releases"),
		{
			of: "hooks", clause: "and a new boot, after which all shards are acquired again",
			explained: "A node that learns of a higher boot has had no lease, except with two processes of one id and a change of leaders between them. Needed: TestNewBootAcquiresAgain.",
		},
		planted("calls are cut like requests after the end of the lease", "hooks: calls continue long after the end of the lease"),
		planted("one call for a shard at a time", "hooks: two calls name the same shard at the same time"),
		planted("seq grows, also across restarts", "hooks: seq starts again with every process"),
		planted("and apps ignore a lower one", "hooks: an app does what a call of before the last one said"),
		planted("a release comes after the last request", "hooks: a shard is released while its requests run"),
		planted(
			"and only while the committed map names the node and its lease holds",
			"hooks: a node that was partitioned releases shards that the next owner serves", "hooks: a shard is released without a lease",
		),
		planted("otherwise the app gets a lost call", "hooks: the app gets no lost call"),
		planted("before the acknowledgement", "hooks: the node acknowledges before the lost calls"),
		planted("a release that fails does not stop the change", "hooks: the node waits forever for a release"),
		planted("and the leader waits longer by release-timeout", "hooks: the leader does not wait longer for a node that releases"),
		planted("an acquire needs a lease", "hooks: a shard is acquired without a lease"),
		planted("and a shard that does not move", "hooks: a shard that moves is acquired"),
		planted("it is cut when the shard moves", "hooks: an acquire call for a moving shard continues"),
		{
			of: "hooks", clause: "all three conditions are checked again on success",
			explained: "Redundant: no request is admitted for a shard of another epoch or without a lease, and requests for moving shards wait. TestSuccessWithoutALeaseCountsWithTheNext.",
		},
		planted("a shard acquired without a lease is checked again with the next lease", "hooks: a shard acquired without a lease is served under a later epoch"),
		planted("a failed acquire is repeated", "hooks: an acquire that failed is not repeated"),
		planted("a restarted process acquires again, with Again set", "hooks: a shard that an earlier process acquired is acquired without Again"),
		planted("an app that does not hold a shard gets an acquire call", "hooks: an app that does not hold a shard gets no acquire call"),
		{
			of: "hooks", clause: "at most 64 calls of a kind run at a time, in turn",
			explained: "The simulation has too few shards. TestCallsOfOneKindTakeTurns, TestNoKindOfCallWaitsForAnother.",
		},
		planted("a shard that an app does not acquire goes to another node", "unacquired: a shard stays though another app could acquire it"),
		{
			of: "hooks", clause: "that may get this shard",
			explained: "Few schedules contain another failing shard, or a copy of it. TestNodeThatKeepsAFailingShardGetsNoOther, TestFailingShardAvoidsBarredNode.",
		},
		planted("whose app has not failed to acquire it", "unacquired: a shard goes to a node whose app has failed, too"),
		{
			of: "hooks", clause: "if there is such a node",
			explained: "In few schedules all apps fail to acquire one shard. TestShardThatNoAppAcquiresStays, TestNothingMovesWhileNoAppAcquires.",
		},
		planted("a node whose app acquires nothing gets no more", "unacquired: a node whose app acquires nothing gets more shards"),
		{
			of: "hooks", clause: "until it succeeds",
			explained: "A schedule ends before a backoff matters. TestShardThatIsNotAcquiredIsReported, TestAppThatAcquiresNothingIsProbed.",
		},
		planted("a safe drain keeps shards that were not released", "safe: a safe drain moves a shard that was not released"),
		planted("a new owner learns the previous owner", "hooks: an acquire call names no previous owner"),
	}
}

// pointsOfReleases are those of what one owner leaves to the next.
func pointsOfReleases() []point {
	planted := func(clause string, names ...string) point {
		return point{of: "released", clause: clause, planted: names}
	}
	return []point{
		planted("an acknowledgement counts once the leader has its releases", "released: an acknowledgement counts before the leader has its releases"),
		planted("which belong to the proposal", "released: releases for another proposal are passed on"),
		{
			of: "released", clause: "to the boot and to the disk",
			explained: "It requires a process that restarts between its acknowledgement and the commit, and acknowledges the same proposal. Then nothing can have changed the released state. Redundant: TestReleasesAreBound.",
		},
		planted("they are sent until the leader confirms them", "released: lost releases are not sent again"),
		planted("for up to release-timeout", "released: a node waits forever for the leader to confirm its releases"),
		planted("each later proposal includes them again", "released: the releases for one proposal are forgotten with the next one"),
		planted("until an acquire voids them", "released: an acquire does not void an earlier release"),
		planted("or their ownership epoch has ended", "released: a release of an earlier ownership epoch is reported again"),
		planted("a failed release does not count", "released: a shard whose release failed counts as released"),
		planted(
			"it counts until the shard has served",
			"released: a shard that has served is acquired as released again", "released: the next process acquires as released a shard that the previous one has served",
		),
		{
			of: "released", clause: "for the disk that acknowledged the map",
			explained: "Another disk gets the name only when its shards may be taken, and then another node has taken them. TestAnotherDiskGetsNoReleaseNote.",
		},
		planted("a shard that was never acquired is passed back", "released: a shard that was never acquired is not passed back"),
		planted("with the note that it came with", "released: a shard that is passed back counts as released by its owner"),
		planted("a release ends with the next owner", "released: a release counts for every later owner"),
	}
}
