package ack_test

// pointsOfHooks are those of docs/internals/protocol-state.md, State follows its shard.
func pointsOfHooks() []point {
	planted := func(clause string, names ...string) point {
		return point{of: "hooks", clause: clause, planted: names}
	}
	return []point{
		planted("only what serves is admitted", "hooks: a shard is served before its app has acquired it"),
		planted("releasing begins before the first byte of a release leaves", "hooks: a shard is served while its app releases it"),
		planted(
			"only a successful acquire leads to serving",
			"hooks: an acquire that failed counts as done", "hooks: a shard that was released for nothing is served again without an acquire",
		),
		planted("an acknowledgement waits for a call", "hooks: acknowledged while the app releases"),
		planted("and so does goodbye", "hooks: goodbye is said while the app releases"),
		{
			of: "hooks", clause: "and a new boot, after which all is acquired again",
			explained: "Who is told of a higher boot has had no lease, but for two processes under one id and a change of leaders between them. Needed: TestNewBootAcquiresAgain.",
		},
		planted("calls are cut as requests are when the lease has ended", "hooks: calls go on after the lease is long over"),
		planted("one delivery for a shard at a time", "hooks: two calls name one shard at once"),
		planted("seq grows, over restarts, too", "hooks: seq starts anew with every process"),
		planted("and apps ignore a lower one", "hooks: an app does what a call of before the last one said"),
		planted("a release comes after the last request", "hooks: a shard is released while its requests run"),
		planted(
			"and only while the committed map names the node and its lease holds",
			"hooks: a healed node releases what its successor serves", "hooks: a shard is released without a lease",
		),
		planted("otherwise it is lost", "hooks: an app is not told what it has lost"),
		planted("before the acknowledgement", "hooks: acknowledged before the app knows what it has lost"),
		planted("a release that fails does not stop the change", "hooks: a release is waited for without end"),
		planted("and the leader waits that much longer", "hooks: the leader waits no longer for who releases"),
		planted("an acquire needs a lease", "hooks: a shard is acquired without a lease"),
		planted("and a shard that nothing moves", "hooks: a shard that moves is acquired"),
		planted("it is cut when something does", "hooks: an acquire of a shard that moves goes on"),
		{
			of: "hooks", clause: "all three are looked at again on success",
			explained: "A second lock: what serves under another epoch is not admitted, without a lease nothing is, and what moves is held. TestSuccessWithoutALeaseCountsWithTheNext.",
		},
		planted("what was acquired without a lease is looked at again with the next", "hooks: what was acquired without a lease is served under a later epoch"),
		planted("it is repeated", "hooks: an acquire that failed is not tried again"),
		planted("a restarted process acquires again, and says so", "hooks: what an earlier process acquired is acquired as if it were new"),
		planted("an app that says it holds nothing acquires", "hooks: an app that says it holds nothing is not asked to acquire"),
		{
			of: "hooks", clause: "at most 64 calls of a kind are under way, in turn",
			explained: "The simulation has too few shards. TestCallsOfOneKindTakeTurns, TestNoKindOfCallWaitsForAnother.",
		},
		planted("a shard that an app does not acquire goes to another node", "unacquired: a shard stays though another app may acquire it"),
		planted("whose app has not failed to acquire it", "unacquired: a shard goes to a node whose app has failed, too"),
		{
			of: "hooks", clause: "if there is one",
			explained: "Few schedules have all apps fail to acquire one shard. TestShardThatNoAppAcquiresStays, TestNothingMovesWhileNoAppAcquires.",
		},
		planted("a node whose app acquires nothing gets no more", "unacquired: a node whose app acquires nothing gets more shards"),
		{
			of: "hooks", clause: "until it succeeds",
			explained: "A schedule is over before a back-off matters. TestShardThatIsNotAcquiredIsReported, TestAppThatAcquiresNothingIsProbed.",
		},
		planted("a safe drain leaves what was not released", "safe: a drain takes what was not released"),
		planted("a new owner is told whom it follows", "hooks: a new owner is told of nobody before it"),
	}
}

// pointsOfReleases are those of what one owner leaves to the next.
func pointsOfReleases() []point {
	planted := func(clause string, names ...string) point {
		return point{of: "released", clause: clause, planted: names}
	}
	return []point{
		planted("an acknowledgement counts once the leader has what it gives up", "released: an acknowledgement counts before the leader has what it gives up"),
		planted("which is bound to the proposal", "released: what was given up for another proposal is passed on"),
		{
			of: "released", clause: "to the boot and to the disk",
			explained: "It takes a process that starts anew between its acknowledgement and the commit, and acknowledges the same proposal; then nothing can have changed what was released. A second lock: TestReleasesAreBound.",
		},
		planted("it is sent until it is taken", "released: what did not get to the leader is not sent again"),
		planted("and for release-timeout at most", "released: a node waits without end for a leader to take what it gives up"),
		planted("it is given up again with each later proposal", "released: what one proposal has released is forgotten with the next"),
		planted("until an acquire voids it", "released: an acquire does not void what was released before it"),
		planted("or its ownership epoch has ended", "released: what was released under an ownership that has ended is given up again"),
		planted("a release that failed is none", "released: a shard whose release failed passes as released"),
		planted(
			"it counts until the shard has served",
			"released: a shard is acquired as released again after it has served", "released: the next process acquires as released what the one before has served",
		),
		{
			of: "released", clause: "for the disk that acknowledged the map",
			explained: "Another disk gets the name only once the shards might be taken, and then somebody has. TestAnotherDiskGetsNoReleaseNote.",
		},
		planted("what was never acquired is given back", "released: what was never acquired is not given back"),
		planted("as it came", "released: what is given back is given as the owner's own"),
		planted("what was released ends with the next owner", "released: what was released once counts for every owner after"),
	}
}
