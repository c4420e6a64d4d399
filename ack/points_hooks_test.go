package ack_test

// pointsOfHooks are those of docs/protocol.md, State follows its shard.
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
			explained: "A second lock: what serves under another epoch is not admitted, without a lease nothing is, and what moves is held. TestSuccessWithoutALeaseIsNone.",
		},
		planted("it is repeated", "hooks: an acquire that failed is not tried again"),
		planted("a restarted process acquires again, and says so", "hooks: what an earlier process acquired is acquired as if it were new"),
		planted("an app that says it holds nothing acquires", "hooks: an app that says it holds nothing is not asked to acquire"),
		planted("a new owner is told whom it follows", "hooks: a new owner is told of nobody before it"),
	}
}
