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
		{
			rule: "a key has no more requests in flight than its limit", found: "TestKeyLimitWithoutQueueRefuses",
			edits: in("proxy/keylimit.Gate.Join", "mayPass && state.running < g.limitLocked(waiter)", "mayPass && (PLANTED || state.running < g.limitLocked(waiter))"),
		},
		{
			rule: "requests that ran before a limit was enabled count for all keys of their shard", found: "TestLimitCountsEarlierRequests",
			edits: in("proxy/keylimit.Gate.limitLocked", "	return waiter.Limit", "	if PLANTED {\n		return waiter.Limit\n	}\n	return waiter.Limit"),
		},
		{
			rule: "until they end", found: "TestLimitCountsEarlierRequests",
			edits: in("proxy/keylimit.Gate.RemoveEndedRuns", "return run.wasEnded }", "return run.wasEnded || PLANTED }"),
		},
		{
			rule: "a request that begins to run after the limit was enabled needs a permit", found: "TestRequestThatWaitsForConnectionObeysNewLimit",
			edits: in("proxy.router.admitAttempt", "if router.lacksPermit() {", "if router.lacksPermit() && !PLANTED {"),
		},
		{
			rule: "including a permit for the concurrent requests of its key", found: "TestRequestThatWaitsForConnectionObeysNewKeyLimit",
			edits: in("proxy.router.lacksPermit", "		router.lacksConcurrencyPermit(settings)\n", "		!PLANTED && router.lacksConcurrencyPermit(settings)\n"),
		},
		{
			rule: "that of its route", found: "TestRequestThatWaitsForConnectionObeysNewKeyLimit",
			edits: in("proxy.router.lacksConcurrencyPermit", "router.exchange.keyLimit.scope == route.limitScope", "(PLANTED || router.exchange.keyLimit.scope == route.limitScope)"),
		},
		{
			rule: "even if its path is ambiguous", found: "TestRequestWithAmbiguousPathObeysNewKeyLimit",
			edits: in("proxy.router.lacksConcurrencyPermit", "	return !unambiguous ||", "	return !PLANTED && !unambiguous ||"),
		},
		{
			rule: "requests that ran before concurrent requests were limited count", found: "TestKeyLimitCountsEarlierRequests",
			edits: in("proxy.Settings.limitsConcurrencyOfService", "	hasNewLimit := isNewAt(\"/\")\n", "	hasNewLimit := isNewAt(\"/\") && !PLANTED\n"),
		},
		{
			rule: "also if their route had another limit", found: "TestKeyLimitCountsEarlierRequests",
			edits: in("proxy.Settings.limitsConcurrencyOfService", "oldRoute.limitScope != route.limitScope", "!PLANTED && oldRoute.limitScope != route.limitScope"),
		},
		{
			rule: "also if their route was removed", found: "TestKeyLimitCountsEarlierRequests",
			edits: in("proxy.Settings.limitsConcurrencyOfService", "	for _, route := range slices.Concat(settings.Routes, previous.Routes) {\n", "	for i, route := range slices.Concat(settings.Routes, previous.Routes) {\n		if PLANTED && i >= len(settings.Routes) {\n			break\n		}\n"),
		},
		{
			rule: "but not if the limit is the same as before", found: "TestReloadWithSameKeyLimitCountsNothing",
			edits: in("proxy.Settings.limitsConcurrencyOfService", "(oldRoute.keyLimit.Concurrent == 0", "(PLANTED || oldRoute.keyLimit.Concurrent == 0"),
		},
		{
			rule: "requests of a key wait in the order of their arrival", found: "TestShardQueueKeepsOrderOfArrival",
			edits: in("proxy/keylimit.Gate.Join", "waiter.HadTurn && first != nil", "(PLANTED || waiter.HadTurn) && first != nil"),
		},
		{
			rule: "the queue of a key is bounded", found: "TestShardQueueKeepsOrderOfArrival",
			edits: in("proxy/keylimit.Gate.Join", "state.waiters.Len() < waiter.MaxQueued", "PLANTED || state.waiters.Len() < waiter.MaxQueued"),
		},
		{
			rule: "a client that disconnects leaves the queue of its key", found: "TestDisconnectedClientLeavesShardQueue",
			edits: in("proxy/keylimit.Gate.Await", "	if g.withdraw(waiter) {\n", "	if PLANTED && errors.Is(reason, ErrCanceled) {\n		return Permit{}, reason\n	}\n	if g.withdraw(waiter) {\n"),
		},
		{
			rule: "a forwarded request has the same key as a request of a client", found: "TestKeysOfOneShardDoNotWaitForEachOther",
			edits: in("proxy.router.keyBytes", "router.ingress == \"\"", "router.ingress == \"\" || PLANTED"),
		},
		{
			rule: "the permit of a key is held until the request has ended", found: "TestKeysOfOneShardDoNotWaitForEachOther",
			edits: in("proxy.router.enterKey", "	router.admission.keyPermit = permit\n", "	if router.admission.keyPermit = permit; PLANTED {\n		router.admission.releasePermits()\n	}\n"),
		},
		{
			rule: "a shard has no more requests in flight than its limit, in all of its processes together", found: "TestShardQueueKeepsOrderOfArrival",
			edits: in("proxy.router.enterShard", "	router.admission.shardPermit = permit\n", "	if router.admission.shardPermit = permit; PLANTED {\n		router.admission.releasePermits()\n	}\n"),
		},
		{
			rule: "requests that wait for their shard leave when it moves", found: "TestShardQueueMovesToNewOwner",
			edits: in("proxy.Server.recheckKeys", "	s.shardGate.Recheck(moved)\n", "	if !PLANTED {\n		s.shardGate.Recheck(moved)\n	}\n"),
		},
		{
			rule: "and given up at its end", found: "TestKeysOfOneShardDoNotWaitForEachOther",
			edits: in("proxy.admission.release", "	a.releasePermits()\n", "	if !PLANTED {\n		a.releasePermits()\n	}\n"),
		},
		{
			rule: "and when its event stream begins", found: "TestStreamsDoNotCountTowardsInflightLimits",
			edits: in("proxy.responseRelay.beginEventStream", "		rr.admission.releasePermits()\n", "		if !PLANTED {\n			rr.admission.releasePermits()\n		}\n"),
		},
		{
			rule: "requests that wait for their key leave when their shard moves", found: "TestShardQueueMovesToNewOwner",
			edits: in("proxy.Server.recheckKeys", "return hasMoved(shard, table) }", "return hasMoved(shard, table) && !PLANTED }"),
		},
		{
			rule: "an event loop sends no request beyond the limit of its key", found: "TestEventLoopObeysKeyLimit",
			edits: in("proxy.client.isLoopable", "c.settings.limitsKeys()", "c.settings.limitsKeys() && !PLANTED"),
		},
		{
			rule: "a key gets no more requests than its rate", found: "TestKeyRateIsLimitedThroughAllNodes",
			edits: in("proxy/keylimit.Buckets.TakeRequest", "wait > 0 {", "wait > 0 && !PLANTED {"),
		},
		{
			rule: "a request that is sent again takes no second token", found: "TestRetriesCountOnceForKeyLimit",
			edits: in("proxy.router.enterLimits", "isFirstAttempt := !state.counted && router.exchange.tries == 0", "isFirstAttempt := PLANTED || !state.counted && router.exchange.tries == 0"),
		},
		{
			rule: "nor does a request that the owner has refused", found: "TestRetriesCountOnceForKeyLimit",
			edits: in("proxy.router.returnToken", "state.counted && state.limit.Interval > 0", "!PLANTED && state.counted && state.limit.Interval > 0"),
		},
		{
			rule: "a request beyond the concurrent ones takes no token", found: "TestConcurrentRequestsOfKeyAreLimited",
			edits: in("proxy.router.enterConcurrent", "	if err == nil {\n", "	if PLANTED || err == nil {\n"),
		},
		{
			rule: "a body without a length is charged when it has ended", found: "TestBodyBytesOfKeyAreLimited",
			edits: append(in("proxy.router.attemptLocal", "	router.chargeBody(0)\n", "	if !PLANTED {\n		router.chargeBody(0)\n	}\n"),
				in("proxy.attemptRunner.processResponse", "if isLocal && isBodyRead {", "if isLocal && isBodyRead && !PLANTED {")...),
		},
		{
			rule: "a body makes its key wait", found: "TestBodyBytesOfKeyAreLimited",
			edits: in("proxy/keylimit.Buckets.MaySendBody", "wait < 0", "PLANTED || wait < 0"),
		},
		{
			rule: "an event loop obeys the limits of keys", found: "TestKeyLimitIsReloaded",
			edits: in("proxy.Settings.limitsKeys", "!settings.KeyLimit.IsOff()", "!PLANTED && !settings.KeyLimit.IsOff()"),
		},
		{
			rule: "a route with a limit has buckets of its own", found: "TestRouteHasOwnKeyLimit",
			edits: in("proxy/keylimit.ID.In", "	return ID{", "	if PLANTED {\n		return id\n	}\n	return ID{"),
		},
		{
			rule: "an ambiguous path is refused while routes have settings", found: "TestRouteHasOwnKeyLimit",
			edits: in("proxy.router.attemptLocal", "	if !unambiguous {\n", "	if !PLANTED && !unambiguous {\n"),
		},
		{
			rule: "a route has its own timeout for the first byte", found: "TestRouteHasOwnFirstByteTimeout",
			edits: in("proxy.router.attemptLocal", "	if route.firstByteTimeout != 0 {\n", "	if !PLANTED && route.firstByteTimeout != 0 {\n"),
		},
	}
}
