package proxy_test

// mutantsOfShardQueues returns the mutants of the queue for the in-flight limit of a shard.
func mutantsOfShardQueues() []mutant {
	return []mutant{
		{
			rule: "requests beyond the limit of a shard wait in the order of their arrival", found: "TestShardQueueKeepsOrderOfArrival",
			edits: in("proxy/connpool.shardLimits.enqueue", "	if waiter.HadTurn && waiter.MaxQueued > 0 {\n", "	if PLANTED || waiter.HadTurn && waiter.MaxQueued > 0 {\n"),
		},
		{
			rule: "a request that replaces its connection keeps its place", found: "TestShardQueueKeepsOrderOfArrival",
			edits: in("proxy/connpool.Pool.Replace", "	waiter.isCharged = true\n", "	waiter.isCharged = !PLANTED\n"),
		},
		{
			rule: "the queue of a shard is bounded", found: "TestShardQueueKeepsOrderOfArrival",
			edits: in("proxy/connpool.shardLimits.mayQueue", "q.waiters.Len() < waiter.MaxQueued", "PLANTED || q.waiters.Len() < waiter.MaxQueued"),
		},
		{
			rule: "a forwarded request waits at the owner for its turn", found: "TestShardQueueKeepsOrderOfArrival",
			edits: in("proxy.requestWait.waitInQueue", "waitsLong := wait.ingress == \"\" || waiter.MaxQueued > 0", "waitsLong := wait.ingress == \"\" || waiter.MaxQueued > 0 && !PLANTED"),
		},
		{
			rule: "a request that is sent again precedes the queue", found: "TestRetriedRequestPrecedesShardQueue",
			edits: in("proxy.router.admitAttempt", "router.exchange.hadTurn = true", "router.exchange.hadTurn = !PLANTED"),
		},
		{
			rule: "queued requests leave when their shard moves", found: "TestShardQueueMovesToNewOwner",
			edits: in("proxy/connpool.Pool.RecheckWaiters", "waiter.queue != nil && p.ShardMoved(waiter, table)", "!PLANTED && waiter.queue != nil && p.ShardMoved(waiter, table)"),
		},
	}
}
